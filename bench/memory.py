#!/usr/bin/env python3
"""Measures the memory that each method takes with as many headers as mainnet has.

    bench/memory.py [--apus PROGRAM] [--tools DIR] [--limits MB,MB,MB] [--only WORDS]
        [--headers N] [--megabytes N] [--options=OPTIONS] [--out TABLE.md] DIR

A chain of full blocks, made by `apus-testchain`, has empty blocks of `empty_blocks` on top of it, so
that all headers are known while the full blocks are worked on. It is synced in order, by join and by
SwiftSync, from files and from a peer, and the UTXO set is rebuilt from the stored blocks; scripts of
the full blocks are skipped as on mainnet (`--assumevalid` at the last of them), and are checked in
runs named "scripts". The options for memory are the defaults, unless --options names others.

--limits are the limits in MB of a control group for in order, join and SwiftSync; 0 is none. Groups
of version 2 and of version 1 work; without either, which needs root, the program is refused.
Measured every 5 ms: the most memory in RAM (VmHWM), and the part of it that the kernel cannot drop
(RssAnon). DIR takes about four times the bytes of the chain.
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

METHODS = ["order", "join", "swiftsync"]
GROUPS = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]


def status_of(pid):
    """Returns the fields in kB of a process's status."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = (line.split() for line in file if line.endswith(" kB\n"))
            return {field[0][:-1]: int(field[1]) for field in fields}
    except (FileNotFoundError, ProcessLookupError):
        return {}


class Group:
    """A control group with a limit on memory; without a limit, none."""

    def __init__(self, megabytes):
        self.path = None
        if not megabytes:
            return
        for root, name in GROUPS:
            # A version 2 hierarchy has a memory controller only if it is enabled for groups.
            if not os.path.exists(root + "/cgroup.procs"):
                continue
            path = f"{root}/apus-memory-{os.getpid()}"
            try:
                os.mkdir(path)
                with open(f"{path}/{name}", "w") as file:
                    file.write(str(megabytes * 1000 * 1000))
                self.path = path
                return
            except OSError:
                if os.path.isdir(path):
                    os.rmdir(path)
        raise SystemExit("no control group can be made here: use --limits 0,0,0")

    def enter(self):
        if self.path:
            with open(self.path + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))

    def remove(self):
        if self.path:
            os.rmdir(self.path)


def run(command, limit):
    """Runs a command in a control group. Returns its exit status, seconds, CPU seconds, the most MB
    in RAM, and the most MB of anonymous memory."""
    group = Group(limit)
    started = time.monotonic()
    with open("/dev/null", "w") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=subprocess.PIPE,
                                   preexec_fn=group.enter)
    highest = anonymous = 0
    while True:
        status = status_of(process.pid)
        highest = max(highest, status.get("VmHWM", 0))
        anonymous = max(anonymous, status.get("RssAnon", 0))
        pid, code, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.005)
    seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(code)
    errors = process.stderr.read().decode()
    group.remove()
    if process.returncode not in (0, -signal.SIGKILL):
        print(errors, file=sys.stderr)
    cpu = used.ru_utime + used.ru_stime
    return process.returncode, seconds, cpu, highest * 1024 / 1e6, anonymous * 1024 / 1e6


class Bench:
    def __init__(self, options):
        self.options = options
        self.dir = options.dir
        self.limits = dict(zip(METHODS, map(int, options.limits.split(","))))
        self.rows = []
        os.makedirs(self.dir, exist_ok=True)
        full, empty = self.at("full.dat"), self.at("empty.dat")
        if not os.path.exists(empty):
            made = self.tool("apus-testchain", "--bytes", f"{options.megabytes}M", "--blocks",
                             str(options.megabytes), "--empty", "0", "-o", full)
            lines = dict(line.split(None, 1) for line in made.splitlines() if " " in line)
            self.write("tip", lines["tip"])
            count = options.headers - int(lines["blocks"])
            top = self.tool("empty_blocks", str(count), "--above", full, "-o", empty)
            self.write("top", top)
        self.files = ["--from", full, "--from", empty]
        self.tip, self.top = self.read("tip"), self.read("top")

    def at(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.at(name)) as file:
            return file.read().strip()

    def write(self, name, text):
        with open(self.at(name), "w") as file:
            file.write(text)

    def tool(self, name, *arguments):
        program = os.path.join(self.options.tools, name)
        return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE,
                              text=True).stdout

    def apus(self, command, directory, method, scripts=False):
        """Returns the command line of a run. Hints are for a block that is assumed valid."""
        assumed = self.top if method == "swiftsync" else self.tip
        line = [self.options.apus, command, "--quiet", "--regtest", "--datadir", self.at(directory),
                "--minimumchainwork", "0", "--assumevalid", "0" if scripts else assumed,
                "--method", method, *shlex.split(self.options.options)]
        return line + (["--hints", self.at("hints")] if method == "swiftsync" else [])

    def measure(self, name, method, command, limit=None):
        if self.options.only and not all(word in name for word in self.options.only.split()):
            return
        limit = self.limits[method] if limit is None else limit
        code, seconds, cpu, highest, anonymous = run(command, limit)
        end = {0: "", -signal.SIGKILL: "killed"}.get(code, f"failed ({code})")
        row = [name, f"{limit} MB" if limit else "", f"{highest:.0f} MB", f"{anonymous:.0f} MB",
               f"{seconds:.1f} s", f"{cpu:.1f} s", end]
        self.rows.append(row)
        print("\t".join(row), flush=True)

    def prepare(self):
        """Makes the directory whose UTXO set is rebuilt, and the hints."""
        if os.path.exists(self.at("hints")):
            return
        shutil.rmtree(self.at("kept"), ignore_errors=True)
        command = self.apus("sync", "kept", "join") + self.files
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([self.options.apus, "hints", "create", "--quiet", "--regtest", "--datadir",
                        self.at("kept"), "-o", self.at("hints")],
                       check=True, stdout=subprocess.DEVNULL)

    def from_peer(self, method):
        shutil.rmtree(self.at("run"), ignore_errors=True)
        whole = self.at("whole.dat")
        if not os.path.exists(whole):
            with open(whole, "wb") as file:
                for part in [self.at("full.dat"), self.at("empty.dat")]:
                    with open(part, "rb") as source:
                        shutil.copyfileobj(source, file)
        serve = subprocess.Popen([os.path.join(self.options.tools, "serve"), whole],
                                 stdout=subprocess.PIPE, text=True)
        try:
            address = serve.stdout.readline().strip()
            self.measure(f"sync, {method}, peer", method, self.apus("sync", "run", method) +
                         [f"--connect={address}", "--v2transport=0"])
        finally:
            serve.kill()
            serve.wait()

    def all(self):
        self.prepare()
        for method in METHODS:
            shutil.rmtree(self.at("run"), ignore_errors=True)
            self.measure(f"sync, {method}, files", method,
                         self.apus("sync", "run", method) + self.files)
            if "peer" in self.options.sources:
                self.from_peer(method)
            self.measure(f"reindex, {method}", method, self.apus("reindex", "kept", method))
            self.measure(f"reindex, {method}, scripts", method,
                         self.apus("reindex", "kept", method, scripts=True))
        shutil.rmtree(self.at("run"), ignore_errors=True)

    def table(self):
        head = ["950,000 headers" if self.options.headers == 950_000
                else f"{self.options.headers:,} headers",
                "limit", "peak in RAM", "anonymous", "time", "CPU", ""]
        rows = [head, ["---", "--:", "--:", "--:", "--:", "--:", "---"], *self.rows]
        return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--apus", default="target/release/apus")
    parser.add_argument("--tools", default="target/release")
    parser.add_argument("--limits", default="300,200,200")
    parser.add_argument("--only", default="")
    parser.add_argument("--sources", default="files,peer")
    parser.add_argument("--headers", type=int, default=950_000)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--options", default="")
    parser.add_argument("--out")
    parser.add_argument("dir")
    options = parser.parse_args()
    bench = Bench(options)
    bench.all()
    print(bench.table(), end="")
    if options.out:
        with open(options.out, "w") as file:
            file.write(bench.table())


main()
