#!/usr/bin/env python3
"""Measures how long Apus and bitcoind take to build Core's optional indexes.

    bench/indexes.py [--apus PROGRAM] [--runs N] [--out TABLE.md] --bitcoind PROGRAM --tip HASH \\
        DIR CHAIN

CHAIN is a directory of regtest blocks, as `apus-testchain --split` writes it, and HASH its last
block. A join with scripts assumed valid makes the directory DIR. Then each index alone and all
together are built in it by bitcoind and by `apus index`, one after the other; and syncs of each
method follow, without indexes and with all that the method can add. Apus is measured from the start
of the program to its end, bitcoind from the line of its log that says that the last index is open
to the line that says that the last one is complete. Files are in the page cache, and all programs
have the default -dbcache of 450 MiB. The best of N runs of Apus counts; bitcoind runs once.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import time

NAMES = ["txindex", "txospenderindex", "blockfilterindex", "coinstatsindex"]
CONNECT = ["-regtest", "-rpcport=19555"]


def run(command):
    """Runs a program. Returns its seconds, its CPU seconds, and its peak memory in MB."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    if status != 0:
        raise SystemExit(f"{command} failed with status {status}")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def size(directory):
    """Returns the MB of all files below a directory."""
    files = [os.path.join(at, name) for at, _, names in os.walk(directory) for name in names]
    return sum(os.path.getsize(path) for path in files) / 1e6



def by_apus(options, names):
    best = None
    for _ in range(options.runs):
        shutil.rmtree(options.dir + "/regtest/indexes", ignore_errors=True)
        measured = run([options.apus, "index", *names, "--chain=regtest", "--datadir", options.dir])
        best = min(best or measured, measured)
    return best


def by_bitcoind(options, names):
    """Lets bitcoind build indexes. Its CPU time is that of the whole program."""
    log = options.dir + "/regtest/debug.log"
    shutil.rmtree(options.dir + "/regtest/indexes", ignore_errors=True)
    if os.path.exists(log):
        os.remove(log)
    data = "-datadir=" + options.dir
    command = [options.bitcoind, *CONNECT, data, "-listen=0", "-connect=0", "-logtimemicros",
               "-printtoconsole=0", *("-" + name for name in names)]
    process = subprocess.Popen(command)
    cli = [os.path.join(os.path.dirname(options.bitcoind), "bitcoin-cli"), *CONNECT, data, "stop"]
    # Lines such as "2026-11-26T05:37:29.123456Z txindex is enabled at height 360".
    opened = re.compile(r"^(\S+)Z Using obfuscation key for \S*/indexes/", re.M)
    ended = re.compile(r"^(\S+)Z .* is enabled at height", re.M)
    while True:
        time.sleep(0.1)
        text = open(log).read() if os.path.exists(log) else ""
        if process.poll() is not None:
            raise SystemExit(f"{command} ended: {text[-2000:]}")
        if len(ended.findall(text)) >= len(names):
            break
    first, last = (max(map(datetime.datetime.fromisoformat, which.findall(text)))
                   for which in (opened, ended))
    subprocess.run(cli, check=True, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    seconds = (last - first).total_seconds()
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def synced(options, method, source, names):
    """Syncs into a new directory."""
    target = options.dir + "-synced"
    best = None
    for _ in range(options.runs):
        shutil.rmtree(target, ignore_errors=True)
        os.sync()
        measured = run([options.apus, "sync", "--chain=regtest", "--from", source,
                        "--datadir", target, *method, *("--" + name for name in names)])
        best = min(best or measured, measured)
    shutil.rmtree(target)
    return best


def methods(options):
    """Returns each method's name, its options, its source, and the indexes that it can add: without
    undo data, two of them."""
    hints = options.dir + ".hints"
    run([options.apus, "hints", "create", "--chain=regtest", "--datadir", options.dir, "-o", hints,
         "--force"])
    valid = ["--assumevalid", options.tip]
    swift = ["--hints", hints]
    stored = options.dir + "/regtest/blocks"
    return [
        ("join", ["--method=join", *valid], options.chain, NAMES),
        ("in order", ["--method=order", *valid], options.chain, NAMES),
        ("SwiftSync, assumed valid", [*swift, *valid], options.chain, NAMES[:2]),
        ("SwiftSync, everything checked", [*swift, "--assumevalid=0"], stored, NAMES),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--apus", default="target/release/apus")
    parser.add_argument("--bitcoind", required=True)
    parser.add_argument("--tip", required=True, help="hash of the last block")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("dir")
    parser.add_argument("chain")
    options = parser.parse_args()
    lines = []

    def say(line):
        print(line, flush=True)
        lines.append(line)

    if not os.path.isdir(options.dir):
        run([options.apus, "sync", "--chain=regtest", "--from", options.chain, "--datadir",
             options.dir, "--method=join", "--assumevalid", options.tip])
    version = subprocess.run([options.bitcoind, "-version"], capture_output=True, text=True).stdout
    say(version.splitlines()[0])
    say("")
    say("| index | Apus | CPU | memory | bitcoind | CPU | memory | times as fast | bytes |")
    say("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for names in [[name] for name in NAMES] + [NAMES]:
        theirs = by_bitcoind(options, names)
        ours = by_apus(options, names)
        bytes_of = size(options.dir + "/regtest/indexes")
        name = f"`{names[0]}`" if len(names) == 1 else "all four"
        cells = [f"{of[0]:.2f} s | {of[1]:.1f} s | {of[2]:.0f} MB" for of in (ours, theirs)]
        say(f"| {name} | {' | '.join(cells)} | {theirs[0] / ours[0]:.1f} | {bytes_of:.0f} MB |")
    say("")
    say("| sync | alone | CPU | memory | with indexes | CPU | memory | they add | of the sync |")
    say("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, method, source, names in methods(options):
        both = [synced(options, method, source, which) for which in ([], names)]
        cells = [f"{of[0]:.2f} s | {of[1]:.1f} s | {of[2]:.0f} MB" for of in both]
        added = both[1][0] - both[0][0]
        say(f"| {name}, {len(names)} indexes | {' | '.join(cells)} | {added:.2f} s | "
            f"{added / both[0][0]:.2f} |")
    if options.out:
        with open(options.out, "w") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
