#!/usr/bin/env python3
"""Measures Apus on the blocks of your node, bitcoind beside it, and writes a report to publish.

    contrib/bench/mainnet.py --from /old/node --work /fast/disk/bench --bitcoind /usr/bin/bitcoind

Steps, each a process of its own on the same blocks and disk:

    sync      apus sync --from the node, into a directory of its own (blocks are copied)
    order     apus reindex --method=order on that directory
    join      apus reindex --method=join
    hints     apus hints create, which the next step needs
    swiftsync apus reindex --hints
    core      bitcoind -reindex-chainstate on the same directory, if --bitcoind names one

After each step the UTXO set is hashed (muhash), by the program that has built it; with a difference
there is no report. WORK/report.md and report.json have versions, commits and SHA-256 of the programs,
processor, memory, disks, every command, the results, the hashes, and what Apus's arithmetic says beside
each measurement; WORK/logs has every output and debug.log. An interrupted run continues with the same
command: a step that was stopped by Ctrl-C goes on, and its parts are added; one that was cut off
otherwise is made again. What was not measured is not in the report.

The node must not run meanwhile. Python 3.9 or newer, and no other package.
"""

import argparse
import base64
import datetime
import hashlib
import http.client
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

FORMAT = 1
STEPS = ["sync", "order", "join", "hints", "swiftsync", "core"]
TITLES = {
    "sync": "`apus sync --from` the node",
    "order": "`apus reindex --method=order`",
    "join": "`apus reindex --method=join`",
    "hints": "`apus hints create`",
    "swiftsync": "`apus reindex --hints` (SwiftSync)",
    "core": "`bitcoind -reindex-chainstate`",
}
# What docs/budget.md has measured on its machine: CPU seconds for a GB of blocks without scripts, and
# microseconds for a script by kernel. Of a join, what the scripts leave of README's table.
MACHINE = "2 cores of an AMD EPYC (Zen 5) with blocks in the page cache (docs/budget.md)"
CPU_PER_GB = {"order": 13.2 / 2.10, "join": (11.1 - 2.84 * 3.1) / 0.6, "swiftsync": 3.5 / 2.10}
MICROSECONDS = {"avx512": 3.1, "avx2": 10.0, "neon": 15.0, "library": 30.0, "portable": 30.0}
# Mainnet of 2026 (ARCHITECTURE.md), for what these costs come to there.
MAINNET_GB, MAINNET_INPUTS = 770, 3.2e9
# What a report says of the blocks, added over the parts of a step.
COUNTS = ["blocks", "bytes", "transactions", "inputs", "scripts_checked"]
# Directories in which Apus keeps work that was cut off.
UNFINISHED = ["chainstate/reindex", "join", "swiftsync"]
# bitcoind is asked for the hash of its UTXO set, which may take this many seconds.
RPC_SECONDS = 6 * 3600


class Refused(Exception):
    """The report cannot be made, or a step cannot be measured."""


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--from", dest="source", required=True, help="a node's data or blocks directory, or a file")
    add("--work", required=True, help="a directory for everything, with room for all blocks")
    add("--apus", default="apus", help="the program [apus]")
    add("--bitcoind", help="a bitcoind to compare with")
    add("--steps", default=",".join(STEPS), help="which steps, by commas [all]")
    add("--chain", default="main", help="the network [main]")
    add("--assumevalid", help="0: check every script; HASH; [the default of each program]")
    add("--dbcache", type=int, default=450, help="MiB of cache for all [450]")
    add("--stopatheight", type=int, help="the last block")
    add("--drop-caches", action="store_true", help="empty the page cache before each step (root)")
    add("--machine", default="", help="words for the report: model of disk, cooling, cloud instance")
    return parser.parse_args()


# What is known of the machine.


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def field(text, name):
    found = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def mount_of(path):
    """The device, kind and options of the file system that a path is on."""
    best = None
    for line in read("/proc/self/mounts").splitlines():
        device, point, kind, options = line.split(" ")[:4]
        point = point.replace("\\040", " ")
        is_above = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
        if is_above and (best is None or len(point) >= len(best["point"])):
            best = {"device": device, "point": point, "kind": kind, "options": options}
    return best


def disk_of(path):
    """The file system and the disk that a path is on, as far as the system tells."""
    path = pathlib.Path(path).resolve()
    stat = os.stat(path)
    block = pathlib.Path(f"/sys/dev/block/{os.major(stat.st_dev)}:{os.minor(stat.st_dev)}").resolve()
    disk = block if (block / "queue").exists() else block.parent
    rotational = read(disk / "queue/rotational").strip()
    space = shutil.disk_usage(path)
    return {
        "mount": mount_of(path),
        "disk": disk.name if (disk / "queue").exists() else None,
        "model": read(disk / "device/model").strip() or None,
        "rotational": {"0": False, "1": True}.get(rotational),
        "size_bytes": space.total,
        "free_bytes": space.free,
    }


def machine(args, work):
    cpuinfo, meminfo = read("/proc/cpuinfo"), read("/proc/meminfo")
    flags = set((field(cpuinfo, "flags") or field(cpuinfo, "Features") or "").split())
    memory = field(meminfo, "MemTotal")
    known = ["sha_ni", "avx2", "avx_ifma", "avx512ifma", "sha2", "asimd"]
    return {
        "processor": field(cpuinfo, "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "flags": [flag for flag in known if flag in flags],
        "memory_bytes": int(memory.split()[0]) << 10 if memory else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None,
        "source": disk_of(args.source),
        "work": disk_of(work),
        "words": args.machine,
    }


def program(path):
    """The version, commit and SHA-256 of a program."""
    found = shutil.which(path)
    if found is None:
        raise Refused(f"{path}: there is no such program")
    ran = subprocess.run([found, "--version"], capture_output=True, text=True)
    if ran.returncode:
        raise Refused(f"{found} --version: {ran.stderr.strip()}")
    version = ran.stdout.splitlines()[0]
    commit = re.search(r"\(commit ([0-9a-f]+)|-g([0-9a-f]{7,})", version)
    with open(found, "rb") as file:
        digest = hashlib.sha256()
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return {
        "path": os.path.realpath(found),
        "version": version,
        "commit": next(filter(None, commit.groups())) if commit else None,
        "sha256": digest.hexdigest(),
    }


# The state of the work, which is on disk before and after each step.


class State:
    def __init__(self, work, settings):
        self.path = work / "state.json"
        self.work = work
        self.data = {"format": FORMAT, "settings": settings, "steps": {}}
        if self.path.exists():
            self.data = json.loads(self.path.read_text())
            if self.data.get("format") != FORMAT:
                raise Refused(f"{self.path} is of another version: name a new directory with --work")
            before = self.data["settings"]
            changed = [name for name in settings if before.get(name) != settings[name]]
            if changed:
                raise Refused(
                    f"{work} was begun with other settings ({', '.join(changed)}): use the same, or "
                    "name a new directory with --work"
                )
        elif any(work.iterdir()):
            raise Refused(f"{work} is not empty, and holds no work to continue")
        self.save()

    def save(self):
        new = self.path.with_suffix(".new")
        with open(new, "w") as file:
            json.dump(self.data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self.path)

    def step(self, name):
        return self.data["steps"].setdefault(name, {"parts": [], "running": False})


class Stop:
    """Passes Ctrl-C on to the program that is being measured, and remembers it."""

    def __init__(self):
        self.asked = False
        self.child = None
        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, self.on_signal)

    def on_signal(self, *_):
        self.asked = True
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)


def measured(stop, command, log):
    """Runs a program to its end. Returns its measurements and its standard output."""
    output = log.with_suffix(".out")
    with open(log, "ab") as errors, open(output, "wb") as out:
        errors.write(f"$ {shlex.join(command)}\n".encode())
        errors.flush()
        load = os.getloadavg()[0]
        began, clock = time.time(), time.monotonic()
        # A group of its own: the terminal's Ctrl-C reaches the program once, through this script.
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
        )
        stop.child = child
        if stop.asked:
            child.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - clock
        child.returncode = os.waitstatus_to_exitcode(status)
        stop.child = None
    part = {
        "command": command,
        "began": datetime.datetime.fromtimestamp(began, datetime.timezone.utc).isoformat(),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_memory_bytes": usage.ru_maxrss << 10,
        "disk_read_bytes": usage.ru_inblock * 512,
        "disk_written_bytes": usage.ru_oublock * 512,
        "load_before": load,
        "status": child.returncode,
    }
    return part, output.read_text(errors="replace")


def tail(path, lines=15):
    return "\n".join(read(path).splitlines()[-lines:])


# The steps.


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.node = work / "node"
        self.logs = work / "logs"
        self.programs = {"apus": program(args.apus)}
        if args.bitcoind:
            self.programs["bitcoind"] = program(args.bitcoind)
        steps = args.steps.split(",")
        unknown = [step for step in steps if step not in STEPS]
        if unknown:
            raise Refused(f"--steps: there is no step {', '.join(unknown)}; the steps are {', '.join(STEPS)}")
        if "swiftsync" in steps and "hints" not in steps:
            raise Refused("--steps: swiftsync needs hints")
        if "sync" not in steps:
            raise Refused("--steps: all others need sync")
        self.steps = [step for step in STEPS if step in steps]
        if not args.bitcoind:
            self.steps = [step for step in self.steps if step != "core"]
        settings = {
            "source": os.path.realpath(args.source),
            "chain": args.chain,
            "assumevalid": args.assumevalid,
            "dbcache": args.dbcache,
            "stopatheight": args.stopatheight,
            "drop_caches": args.drop_caches,
        }
        self.state = State(work, settings)
        known = self.state.data.setdefault("programs", {})
        for name, at in self.programs.items():
            if known.setdefault(name, at["sha256"]) != at["sha256"]:
                raise Refused(
                    f"{work} was begun with another {name}: use the same, or name a new directory "
                    "with --work"
                )
        self.state.save()
        self.logs.mkdir(exist_ok=True)
        # An old report must not be taken for one of what is measured now.
        for old in ("report.md", "report.json"):
            (work / old).unlink(missing_ok=True)
        self.stop = Stop()

    def options(self):
        """Options that all programs share."""
        options = [f"--datadir={self.node}", f"--chain={self.args.chain}"]
        return options

    def connecting(self):
        options = self.options() + [f"--dbcache={self.args.dbcache}", "--noconf", "--json"]
        if self.args.assumevalid is not None:
            options.append(f"--assumevalid={self.args.assumevalid}")
        if self.args.stopatheight:
            options.append(f"--stopatheight={self.args.stopatheight}")
        return options

    def command(self, step, goes_on):
        apus = self.programs["apus"]["path"]
        if step == "sync":
            source = [f"--from={self.args.source}", "--connect=0"]
            return [apus, "sync", *source, *self.connecting()]
        if step in ("order", "join"):
            return [apus, "reindex", f"--method={step}", *self.connecting()]
        if step == "hints":
            hints = self.work / "hints"
            return [apus, "hints", "create", *self.options(), "--noconf", "--force", "-o", str(hints)]
        if step == "swiftsync":
            return [apus, "reindex", f"--hints={self.work / 'hints'}", *self.connecting()]
        return self.bitcoind(self.core_options(goes_on))

    def bitcoind(self, more):
        network = self.args.chain
        options = [f"-datadir={self.node}", f"-chain={network}", f"-conf={self.work / 'none.conf'}"]
        options += ["-connect=0", "-listen=0", "-dnsseed=0", "-printtoconsole=0"]
        options.append(f"-debuglogfile={self.logs / 'core-debug.log'}")
        (self.work / "none.conf").touch()
        return [self.programs["bitcoind"]["path"], *options, *more]

    def core_options(self, goes_on):
        options = ["-server=0", "-stopafterblockimport", f"-dbcache={self.args.dbcache}"]
        # Begun again, it would start from the first block.
        if not goes_on:
            options.append("-reindex-chainstate")
        if self.args.assumevalid is not None:
            options.append(f"-assumevalid={self.args.assumevalid}")
        if self.args.stopatheight:
            options.append(f"-stopatheight={self.args.stopatheight}")
        return options

    def without_places(self, value):
        """What is published: without the paths of this machine, in whatever it holds."""
        if isinstance(value, dict):
            return {name: self.without_places(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.without_places(each) for each in value]
        if isinstance(value, str):
            places = {at["path"]: name for name, at in self.programs.items()}
            places.update({str(self.work): "WORK", self.args.source: "FROM"})
            for place, name in places.items():
                value = value.replace(place, name)
        return value

    def drop_caches(self):
        os.sync()
        if self.args.drop_caches:
            try:
                pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
            except OSError as error:
                raise Refused(f"--drop-caches: {error}") from None

    def run(self):
        for step in self.steps:
            state = self.state.step(step)
            if "result" in state:
                continue
            if state["running"]:
                # It was cut off without its time being known, so nothing of it counts.
                print(f"{step}: was cut off, and is made again", flush=True)
                self.discard(step)
            self.measure(step, state)
        print(f"{self.work}/report.md", flush=True)

    def discard(self, step):
        self.state.data["steps"][step] = {"parts": [], "running": False}
        if step == "sync":
            shutil.rmtree(self.node, ignore_errors=True)
        for unfinished in UNFINISHED:
            for path in self.node.rglob(unfinished):
                shutil.rmtree(path, ignore_errors=True)
        self.state.save()

    def measure(self, step, state=None):
        state = self.state.step(step)
        goes_on = bool(state["parts"])
        command = self.command(step, goes_on)
        print(f"{step}: {shlex.join(command)}", flush=True)
        self.drop_caches()
        state["running"] = True
        self.state.save()
        log = self.logs / f"{step}.log"
        part, output = measured(self.stop, command, log)
        part["summary"] = json.loads(output) if output.startswith("{") else None
        # bitcoind ends the same way whether it is done or interrupted.
        is_cut = self.stop.asked and (part["status"] != 0 or step == "core")
        if part["status"] and not is_cut:
            # What it has left, and in what time, is not known.
            raise Refused(f"{step} ended with status {part['status']}:\n{tail(log)}")
        state["parts"].append(part)
        state["running"] = False
        self.state.save()
        if is_cut:
            raise Refused("interrupted: the same command continues")
        result = {}
        if step == "hints":
            result["bytes"] = (self.work / "hints").stat().st_size
        elif step == "core":
            result["utxo"] = self.hash_of_core()
        else:
            self.check(step, part["summary"])
            result["utxo"] = self.hash_of_apus()
        state["result"] = result
        self.state.save()
        if self.stop.asked:
            raise Refused("interrupted: the same command continues")

    def check(self, step, summary):
        """Refuses a run that did not do what its row says."""
        method = {"order": "order", "join": "join", "swiftsync": "swiftsync"}.get(step)
        if method and summary["method"] != method:
            raise Refused(f"{step}: Apus used the method {summary['method']}: {summary['why']}")
        if summary["interrupted"] or summary["refused"]:
            raise Refused(f"{step}: refused {summary['refused']}")
        if self.args.assumevalid == "0" and summary["scripts_checked"] != summary["inputs"]:
            raise Refused(f"{step}: {summary['scripts_checked']} of {summary['inputs']} scripts checked")

    def hash_of_apus(self):
        command = [self.programs["apus"]["path"], "txoutset", "info", "--hash=muhash", "--json"]
        ran = subprocess.run([*command, *self.options(), "--noconf"], capture_output=True, text=True)
        if ran.returncode:
            raise Refused(f"apus txoutset info: {ran.stderr.strip()}")
        return same_fields(json.loads(ran.stdout), "apus txoutset info")

    def hash_of_core(self):
        """Starts bitcoind without a peer, asks for the hash of its UTXO set, and stops it."""
        cookie = self.work / "cookie"
        cookie.unlink(missing_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        rpc = ["-server=1", f"-rpcport={port}", f"-rpccookiefile={cookie}", "-rpcbind=127.0.0.1"]
        command = self.bitcoind([*rpc, "-rpcallowip=127.0.0.1", "-rest=0"])
        with open(self.logs / "core-hash.log", "ab") as log:
            daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.stop.child = daemon
        try:
            while not cookie.exists() or self.ask(port, cookie, "getblockcount") is None:
                if daemon.poll() is not None or self.stop.asked:
                    raise Refused(f"bitcoind does not start:\n{tail(self.logs / 'core-debug.log')}")
                time.sleep(0.2)
            found = self.ask(port, cookie, "gettxoutsetinfo", "muhash")
            if found is None:
                raise Refused("bitcoind: gettxoutsetinfo muhash fails")
            self.ask(port, cookie, "stop")
            daemon.wait()
        finally:
            self.stop.child = None
            if daemon.poll() is None:
                daemon.terminate()
                daemon.wait()
        return same_fields(found, "gettxoutsetinfo")

    @staticmethod
    def ask(port, cookie, method, *params):
        """The result of an RPC; None if there is none."""
        try:
            login = base64.b64encode(cookie.read_bytes()).decode()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=RPC_SECONDS)
            body = json.dumps({"id": 0, "method": method, "params": params})
            connection.request("POST", "/", body, {"Authorization": f"Basic {login}"})
            return json.loads(connection.getresponse().read()).get("result")
        except (OSError, ValueError, http.client.HTTPException):
            return None


def same_fields(found, what):
    names = ["height", "bestblock", "txouts", "muhash"]
    if any(found.get(name) is None for name in names):
        raise Refused(f"{what}: {found} lacks one of {', '.join(names)}")
    return {name: found[name] for name in names}


# The report.


def sums(state):
    """The measurements of all parts of a step together."""
    parts = state["parts"]
    add = lambda name: round(sum(part[name] for part in parts), 3)
    names = ["seconds", "cpu_seconds", "disk_read_bytes", "disk_written_bytes"]
    together = {name: add(name) for name in names}
    together["peak_memory_bytes"] = max(part["peak_memory_bytes"] for part in parts)
    together["load_before"] = max(part["load_before"] for part in parts)
    together["parts"] = len(parts)
    summaries = [part["summary"] for part in parts if part["summary"]]
    for name in COUNTS if summaries else []:
        together[name] = sum(summary.get(name, 0) for summary in summaries)
    return together


def arithmetic(method, counts, kernel):
    """CPU seconds that the costs of the known machine come to; None without such costs."""
    if method not in CPU_PER_GB or kernel not in MICROSECONDS:
        return None
    blocks = counts["bytes"] / 1e9 * CPU_PER_GB[method]
    scripts = counts["scripts_checked"] * MICROSECONDS[kernel] / 1e6
    return {"blocks": round(blocks, 3), "scripts": round(scripts, 3), "kernel": kernel}


def made_report(bench):
    """The report as one object; refuses to say what was not measured, or what does not agree."""
    done = {name: state for name, state in bench.state.data["steps"].items() if "result" in state}
    missing = [step for step in bench.steps if step not in done]
    if missing:
        raise Refused(f"not measured yet: {', '.join(missing)}")
    sets = {name: state["result"]["utxo"] for name, state in done.items() if "utxo" in state["result"]}
    first = sets["sync"]
    for name, found in sets.items():
        if found != first:
            raise Refused(f"the UTXO sets differ: sync has {first}, {name} has {found}")
    steps = {}
    for name in bench.steps:
        state, result = done[name], done[name]["result"]
        step = sums(state)
        step["commands"] = [part["command"] for part in state["parts"]]
        step["began"] = state["parts"][0]["began"]
        step["summaries"] = [part["summary"] for part in state["parts"] if part["summary"]]
        if step["summaries"]:
            last = step["summaries"][-1]
            kernel = (last.get("script_checks") or {}).get("kernel") or "library"
            step["method"] = last["method"]
            step["arithmetic_cpu_seconds"] = arithmetic(last["method"], step, kernel)
        if "bytes" in result:
            step["bytes"] = result["bytes"]
        if "core" in done and name != "core" and name in CPU_PER_GB:
            step["times_core"] = round(sums(done["core"])["seconds"] / step["seconds"], 2)
        steps[name] = step
    return {
        "format": FORMAT,
        "machine": machine(bench.args, bench.work),
        "programs": {
            name: {key: at[key] for key in ("version", "commit", "sha256")}
            for name, at in bench.programs.items()
        },
        "settings": bench.state.data["settings"],
        "utxo_set": first,
        "utxo_set_of": sorted(sets),
        "steps": steps,
    }


def gigabytes(count):
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


def markdown(report):
    lines = []
    add = lines.append
    utxo, where = report["utxo_set"], report["machine"]
    summary = report["steps"]["sync"]
    settings = report["settings"]
    add(f"# {settings['chain']} up to height {utxo['height']:,}")
    add("")
    scripts = f"{summary['scripts_checked']:,} of {summary['inputs']:,} scripts checked by Apus"
    add(f"{summary['blocks']:,} blocks, {gigabytes(summary['bytes'])}, "
        f"{summary['transactions']:,} transactions; {scripts}; {utxo['txouts']:,} coins left. "
        f"Cache of all programs: {settings['dbcache']} MiB. "
        + ("The page cache was emptied before each step."
           if settings["drop_caches"] else "The page cache was not emptied between steps."))
    add("")
    add("| | time | CPU | peak memory | disk read | disk written | times as fast as bitcoind | "
        "CPU by arithmetic |")
    add("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, step in report["steps"].items():
        times = f"{step['times_core']:.1f}" if "times_core" in step else ""
        cpu = step.get("arithmetic_cpu_seconds")
        expected = f"{cpu['blocks'] + cpu['scripts']:,.2f} s" if cpu else ""
        parts = f" (in {step['parts']} parts)" if step["parts"] > 1 else ""
        add(f"| {TITLES[name]}{parts} | {step['seconds']:,.1f} s | {step['cpu_seconds']:,.1f} s | "
            f"{gigabytes(step['peak_memory_bytes'])} | {gigabytes(step['disk_read_bytes'])} | "
            f"{gigabytes(step['disk_written_bytes'])} | {times} | {expected} |")
    add("")
    hashed = ", ".join(f"`{name}`" for name in report["utxo_set_of"])
    add(f"Block {utxo['bestblock']}; muhash of the UTXO set after {hashed}, each by the program that "
        f"built it: `{utxo['muhash']}`.")
    add("")
    add("## Machine")
    add("")
    memory = gigabytes(where["memory_bytes"]) if where["memory_bytes"] else "unknown"
    add(f"- {where['processor']}, {where['cores']} cores ({', '.join(where['flags']) or 'no flags'}), "
        f"{memory} of memory, {where['system']}")
    for name in ("source", "work"):
        disk = where[name]
        kind = {False: "reported as solid-state", True: "reported as turning", None: "kind unknown"}[disk["rotational"]]
        mount = disk["mount"] or {"kind": "unknown", "device": "unknown"}
        add(f"- {name}: {mount['kind']} on {mount['device']}, {disk['model'] or 'model unknown'}, "
            f"{kind}, {gigabytes(disk['size_bytes'])}")
    if where["words"]:
        add(f"- {where['words']}")
    load = ", ".join(f"{name} {step['load_before']:.2f}" for name, step in report["steps"].items())
    add(f"- load before each step: {load}")
    add("")
    add("## Programs and commands")
    add("")
    for at in report["programs"].values():
        add(f"- {at['version']}, SHA-256 {at['sha256']}")
        if "slow build" in at["version"]:
            add("- **This program is a build for tests: its times say nothing about Apus.**")
    add("")
    add("```")
    for step in report["steps"].values():
        for command in step["commands"]:
            add(shlex.join(command))
    add("```")
    add("")
    add("## Arithmetic")
    add("")
    add(f"CPU by arithmetic is what the costs measured on {MACHINE}, come to for these blocks: for each "
        "GB " + ", ".join(f"{cost:.1f} s ({name})" for name, cost in CPU_PER_GB.items())
        + "; for each script "
        + ", ".join(f"{cost:.1f} µs ({name})" for name, cost in MICROSECONDS.items())
        + f". For mainnet ({MAINNET_GB} GB, {MAINNET_INPUTS / 1e9:.1f} billion inputs) they come to:")
    add("")
    add("| method | scripts skipped | every script, AVX-512 | every script, AVX2 |")
    add("|---|--:|--:|--:|")
    for name, cost in CPU_PER_GB.items():
        skipped = MAINNET_GB * cost / 3600
        every = [MAINNET_INPUTS * MICROSECONDS[kernel] / 1e6 / 3600 for kernel in ("avx512", "avx2")]
        cells = [f"{hours:.1f} h" for hours in (skipped, skipped + every[0], skipped + every[1])]
        add(f"| {name} | {' | '.join(cells)} |")
    add("")
    add("These are hours of one core: divided by the cores they are a lower bound of the time, which the "
        "disk may exceed. This table is an estimate, and nothing in it was measured here.")
    add("")
    return "\n".join(lines)


def write_report(bench):
    report = bench.without_places(made_report(bench))
    for log in bench.node.rglob("debug.log"):
        shutil.copy(log, bench.logs / "apus-debug.log")
    for name, text in [("report.json", json.dumps(report, indent=1)), ("report.md", markdown(report))]:
        (bench.work / name).write_text(text)
    return report


def main():
    args = parsed()
    work = pathlib.Path(args.work).resolve()
    if not os.path.exists(args.source):
        sys.exit(f"Error: --from {args.source}: there is nothing there")
    args.source = os.path.realpath(args.source)
    if work == pathlib.Path(args.source) or pathlib.Path(args.source) in work.parents:
        sys.exit("Error: --work must not be inside the node's directory")
    work.mkdir(parents=True, exist_ok=True)
    try:
        bench = Bench(args, work)
        bench.run()
        write_report(bench)
    except Refused as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
