#!/usr/bin/env python3
"""Compares the time left that `apus` shows with the time that it then takes.

    bench/eta.py [--apus PROGRAM] [--dir DIR] [--only WORDS] [--out TABLE.md] CHAIN...

CHAIN is a file of regtest blocks, as `apus-testchain` writes it. Each is synced and built again in
every way: in order, by join, by SwiftSync; with every script and with none; from files, from the
stored blocks, and from `apus serve` as a peer. The program runs on a terminal of 160 columns, so
what is measured is what people read. At 10, 50 and 90 % of each run's real time, the range that was
on the terminal is compared with the time that the run still took. DIR takes about four times the
bytes of the largest chain, and is emptied after each.
"""

import argparse
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import fcntl
import termios

MARKS = (0.1, 0.5, 0.9)
UNITS = {"s": 1, "min": 60, "h": 3600, "days": 86400}
RANGE = r"(?:up to (\d+)|(\d+)(?:–(\d+))?) (s|min|h|days)"
LEFT = re.compile(RANGE + " left")
AT_FIRST = re.compile("; it should take " + RANGE + r"(?:\. --method|\s*$)", re.M)
SHARE = re.compile(r"([\d.]+) %")
PHASE = re.compile(r"left, ([A-Z][^:,]*(?:: [a-z ]+)?)")


def span(groups):
    """Returns the seconds of a range in words."""
    most, low, high, unit = groups
    factor = UNITS[unit]
    if most:
        return 0, int(most) * factor
    # A range is rounded down and up.
    return int(low) * factor, int(high or low) * factor


def run(command):
    """Runs a command on a terminal. Returns its seconds, and what it has told: a list of the second,
    the lowest and the highest number of seconds left, the share done, and the phase."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=secondary, stdin=secondary)
    os.close(secondary)
    told, rest, everything = [], "", []
    while True:
        ready, _, _ = select.select([primary], [], [], 0.05)
        now = time.monotonic() - started
        if not ready:
            if process.poll() is not None:
                break
            continue
        try:
            data = os.read(primary, 65536)
        except OSError:
            break
        if not data:
            break
        everything.append(data)
        text = rest + data.decode("utf-8", "replace")
        lines = re.split(r"[\r\n]", text)
        rest = lines.pop()
        for line in lines + [rest]:
            found = LEFT.search(line) or AT_FIRST.search(line)
            if found:
                share, phase = SHARE.search(line), PHASE.search(line)
                told.append((now, *span(found.groups()), float(share[1]) if share else 0.0,
                             phase[1].strip() if phase else ""))
    out = process.stdout.read().decode()
    status = process.wait()
    seconds = time.monotonic() - started
    os.close(primary)
    if status != 0:
        sys.exit(f"{command} ended with {status}:\n{b''.join(everything).decode(errors='replace')}\n{out}")
    return seconds, told, out


def judge(seconds, told):
    """Returns for each mark: the time left then, the range that was shown, and whether it holds."""
    marks = []
    for mark in MARKS:
        at = mark * seconds
        before = [it for it in told if it[0] <= at]
        if not before:
            marks.append((seconds - at, None, None))
            continue
        then, low, high, _, _ = before[-1]
        # What was told earlier has become less since.
        low, high, left = max(0, low - (at - then)), high - (at - then), seconds - at
        marks.append((left, (low, high), low <= left <= high))
    return marks


def phases(told):
    """Returns the seconds between the first and the last word of each phase."""
    found = {}
    for at, _, _, _, phase in told:
        if phase:
            first, _ = found.get(phase, (at, at))
            found[phase] = (first, at)
    return {phase: round(last - first, 1) for phase, (first, last) in found.items()}


def port():
    """Returns a port that nobody uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Bench:
    """The runs on one chain, and what came of them."""

    def __init__(self, options, chain):
        self.apus, self.only, self.chain = options.apus, options.only, chain
        self.dir, self.rows = options.dir, []
        self.name = os.path.basename(chain).removesuffix(".dat")
        self.common = ["--regtest", "--minimumchainwork", "0"]

    def command(self, datadir, words):
        return [self.apus, *words[:1], *self.common, "--datadir", datadir, *words[1:]]

    def measure(self, what, datadir, *words, fresh=True):
        if self.only and not re.search(self.only, f"{self.name} {what}"):
            return
        if fresh:
            shutil.rmtree(datadir, ignore_errors=True)
        seconds, told, out = run(self.command(datadir, list(words)))
        marks = judge(seconds, told)
        self.rows.append((self.name, what, seconds, marks))
        shown = "  ".join(
            f"{left:.1f} in {low:.0f}–{high:.0f} {'ok' if good else 'MISSED'}" if good is not None else "–"
            for left, (low, high), good in ((l, r or (0, 0), g) for l, r, g in marks))
        print(f"{self.name}: {what}: {seconds:.1f} s: {shown}  {phases(told)}", flush=True)

    def tip(self, datadir):
        out = subprocess.check_output([self.apus, "status", "--regtest", "--datadir", datadir, "--json"])
        return json.loads(out)["bestblock"]

    def all(self):
        base, other = os.path.join(self.dir, "base"), os.path.join(self.dir, "other")
        shutil.rmtree(base, ignore_errors=True)
        hints = os.path.join(self.dir, "hints")
        subprocess.check_call(self.command(base, ["sync", "--quiet", "--connect=0", "--from", self.chain,
                                                  "--method=join", "--assumevalid=0"]))
        tip = self.tip(base)
        subprocess.check_call([self.apus, "hints", "create", "--quiet", "--regtest", "--datadir", base, "-o", hints])
        skip, full = f"--assumevalid={tip}", "--assumevalid=0"
        files = ["--connect=0", "--from", self.chain]
        for scripts, assumed in (("no script", skip), ("every script", full)):
            for method in ("order", "join"):
                self.measure(f"{method}, {scripts}, from a file", other, "sync", *files, f"--method={method}", assumed)
                self.measure(f"{method}, {scripts}, reindex", base, "reindex", f"--method={method}", assumed, fresh=False)
            self.measure(f"SwiftSync, {scripts}, reindex", base, "reindex", "--hints", hints, assumed, fresh=False)
        self.measure("SwiftSync, no script, from a file", other, "sync", *files, "--hints", hints, skip)
        self.measure("order, no script, dbcache 50, reindex", base, "reindex", "--method=order", "--dbcache=50",
                     skip, fresh=False)
        self.from_peer(base, other, hints, skip, full)
        for directory in (base, other):
            shutil.rmtree(directory, ignore_errors=True)
        os.remove(hints)

    def from_peer(self, base, other, hints, skip, full):
        at = f"127.0.0.1:{port()}"
        server = subprocess.Popen(
            [self.apus, "serve", *self.common, "--quiet", "--datadir", base, "--bind", at],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(2)
            for method in ("order", "join"):
                for scripts, assumed in (("no script", skip), ("every script", full)):
                    self.measure(f"{method}, {scripts}, from a peer", other, "sync", "--connect", at,
                                 f"--method={method}", assumed)
            self.measure("SwiftSync, no script, from a peer", other, "sync", "--connect", at, "--hints", hints, skip)
            # A limit makes the download the bottleneck.
            self.measure("join, every script, from a peer at 25 MB/s", other, "sync", "--connect", at,
                         "--maxdownload=25", "--method=join", full)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def table(rows):
    """Returns the rows as Markdown."""
    lines = ["| chain | run | seconds | left at 10 % | range | left at 50 % | range | left at 90 % | range |",
             "|---|---|--:|--:|---|--:|---|--:|---|"]
    for chain, what, seconds, marks in rows:
        cells = []
        for left, told, good in marks:
            cells.append(f"{left:.1f}")
            cells.append("–" if told is None else f"{told[0]:.0f}–{told[1]:.0f}" + ("" if good else " **missed**"))
        lines.append(f"| {chain} | {what} | {seconds:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows):
    """Returns how many ranges held, for each mark."""
    parts = []
    for at, mark in enumerate(MARKS):
        goods = [marks[at][2] for _, _, _, marks in rows if marks[at][2] is not None]
        parts.append(f"{sum(goods)} of {len(goods)} at {mark:.0%}".replace("%", " %"))
    return "Within the range: " + ", ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apus", default="target/release/apus")
    parser.add_argument("--dir", default="target/bench/eta")
    parser.add_argument("--only", help="runs whose name matches this expression")
    parser.add_argument("--out", help="a file for the table")
    parser.add_argument("chains", nargs="+")
    options = parser.parse_args()
    os.makedirs(options.dir, exist_ok=True)
    rows = []
    for chain in options.chains:
        bench = Bench(options, chain)
        bench.all()
        rows += bench.rows
    print(table(rows))
    print(summary(rows))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            out.write(table(rows) + "\n\n" + summary(rows) + "\n")


if __name__ == "__main__":
    main()
