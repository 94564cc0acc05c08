#!/usr/bin/env python3
"""Asks a running `apus reindex --server` many questions, and measures both.

    bench/load.py [--apus PROGRAM] [--dir DIR] [--clients 200] [--rate 200] [--pairs 3]
                  [--sync-cpus LIST --client-cpus LIST] [--options WORDS] CHAIN

CHAIN is a file of regtest blocks, as `apus-testchain` writes it. It is synced once; then its UTXO
set is built again, by turns in peace and under the load of CLIENTS connections, which together ask
RATE questions a second at random moments (0: each the next one at once) until the run ends. One
client of twenty asks for whole blocks, the others what takes microseconds. A question's time counts
from the moment at which it was due. The clients run before other programs
(nice -10, if allowed), so that it is the server that is measured. DIR takes three times the bytes
of the chain.
"""

import argparse
import asyncio
import base64
import collections
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

PROCESSES = 4
GENESIS = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"


def calls():
    """What is asked, and how often: a name, and the request for a block's hash. The first list is of
    quick calls, the second of whole blocks."""
    def rpc(method, *params):
        return lambda block: ("POST", "/", {
            "method": method, "params": [block if p == "BLOCK" else p for p in params], "id": 1})

    def get(path):
        return lambda block: ("GET", path.replace("BLOCK", block), None)
    quick = [
        (20, "getblockchaininfo", rpc("getblockchaininfo")),
        (20, "getblockcount", rpc("getblockcount")),
        (10, "getblockhash", rpc("getblockhash", 0)),
        (10, "getblockheader", rpc("getblockheader", "BLOCK")),
        (10, "getpeerinfo", rpc("getpeerinfo")),
        (5, "getnetworkinfo", rpc("getnetworkinfo")),
        (5, "gettxout", rpc("gettxout", "00" * 31 + "01", 0)),
        (5, "REST chaininfo", get("/rest/chaininfo.json")),
        (5, "REST headers", get("/rest/headers/BLOCK.bin?count=5")),
        (1, "metrics", get("/metrics")),
    ]
    of_blocks = [
        (3, "getblock 0", rpc("getblock", "BLOCK", 0)),
        (3, "getblock 1", rpc("getblock", "BLOCK", 1)),
        (1, "getblock 2", rpc("getblock", "BLOCK", 2)),
        (3, "REST block.bin", get("/rest/block/BLOCK.bin")),
    ]
    return [[(name, request) for count, name, request in weighed for _ in range(count)]
            for weighed in (quick, of_blocks)]


async def ask(reader, writer, auth, method, path, body):
    """Asks one question. Returns the answer's body."""
    data = json.dumps(body).encode() if body else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {auth}\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"content-length: " in answer:
        length = int(answer.split(b"content-length: ")[1].split(b"\r\n")[0])
        return answer.split()[1], await reader.readexactly(length)
    whole = b""
    while True:
        size = int(await reader.readline(), 16)
        whole += (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return answer.split()[1], whole


async def client(port, auth, pause, gone, times, seen, tip, choices):
    reader = writer = None
    due = time.monotonic() + random.random() * pause
    while not gone.is_set():
        await asyncio.sleep(max(0, due - time.monotonic()))
        name, request = random.choice(choices)
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            begun = due if pause else time.monotonic()
            status, answer = await ask(reader, writer, auth, *request(tip[0]))
            times[name].append(time.monotonic() - begun)
            seen[status.decode()] += 1
            if name == "getblockchaininfo" and status == b"200":
                tip[0] = json.loads(answer)["result"]["bestblockhash"]
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # The end of the run.
            writer = None
            await asyncio.sleep(0.05)
        due = due + random.expovariate(1 / pause) if pause else time.monotonic()


def clients(number, port, cookie, pause, gone, cpus, results):
    try:
        os.nice(-10)
    except OSError:
        pass
    if cpus:
        os.sched_setaffinity(0, cpus)
    auth = base64.b64encode(cookie.encode()).decode()
    times, seen, tip = collections.defaultdict(list), collections.Counter(), [GENESIS]

    async def together():
        quick, of_blocks = calls()
        await asyncio.gather(*[
            client(port, auth, pause, gone, times, seen, tip, quick if n % 20 else of_blocks)
            for n in range(number)])
    asyncio.run(together())
    results.put((dict(times), dict(seen), time.process_time()))


def quantile(values, share):
    return 1e3 * sorted(values)[int(share * (len(values) - 1))]


class Bench:
    def __init__(self, args):
        self.args = args
        self.port = 18443
        self.data = os.path.join(args.dir, "data")

    def run(self, words, loaded=False):
        """Runs the program. Returns wall-clock and CPU seconds, and what the clients saw."""
        cpus, results, gone = self.args.sync_cpus, multiprocessing.Queue(), multiprocessing.Event()
        began = time.monotonic()
        words = [self.args.apus, *words, "--regtest", "--datadir", self.data, "--quiet"]
        process = subprocess.Popen(
            words, stderr=open(os.path.join(self.args.dir, "told.txt"), "w"),
            preexec_fn=lambda: cpus and os.sched_setaffinity(0, cpus))
        groups = []
        if loaded:
            path = os.path.join(self.data, "regtest", ".cookie")
            while not os.path.exists(path) or not os.path.getsize(path):
                time.sleep(0.02)
            cookie, count = open(path).read(), self.args.clients // PROCESSES
            pause = self.args.clients / self.args.rate if self.args.rate else 0
            for _ in range(PROCESSES):
                group = multiprocessing.Process(target=clients, args=(
                    count, self.port, cookie, pause, gone, self.args.client_cpus, results))
                group.start()
                groups.append(group)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        gone.set()
        told = [results.get() for _ in groups]
        for group in groups:
            group.join()
        if status:
            sys.exit(f"{' '.join(words)} failed")
        return wall, usage.ru_utime + usage.ru_stime, told


def numbers(text):
    """Reads a list of processors, such as 0-11,14."""
    ends = [part.split("-") for part in text.split(",")] if text else []
    return {n for end in ends for n in range(int(end[0]), int(end[-1]) + 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--apus", default="target/release/apus")
    parser.add_argument("--dir", default="target/bench/load")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--sync-cpus", type=numbers, default=set())
    parser.add_argument("--client-cpus", type=numbers, default=set())
    parser.add_argument("--options", default="")
    parser.add_argument("chain")
    args = parser.parse_args()
    shutil.rmtree(args.dir, ignore_errors=True)
    os.makedirs(args.dir)
    bench, options = Bench(args), args.options.split()
    bench.run(["sync", "--method=join", "--connect=0", "--from", args.chain])
    peace, load, times, seen, spent = [], [], collections.defaultdict(list), collections.Counter(), 0
    for _ in range(args.pairs):
        peace.append(bench.run(["reindex", *options]))
        load.append(bench.run(["reindex", "--server", "--rest", *options], loaded=True))
        for some, counts, cpu in load[-1][2]:
            spent += cpu
            seen.update(counts)
            for name, values in some.items():
                times[name] += values
    for name, values in sorted(times.items(), key=lambda item: -quantile(item[1], 0.99)):
        print(f"{name:20} {len(values):8} × p50 {quantile(values, .5):8.2f} ms, "
              f"p99 {quantile(values, .99):8.2f} ms, most {quantile(values, 1):8.2f} ms")
    seconds, lists = sum(run[0] for run in load), calls()
    for what, choices in zip(("quick calls", "whole blocks"), lists):
        names = {name for name, _ in choices}
        values = [value for name, some in times.items() if name in names for value in some]
        print(f"{what}: {len(values)} answers, {len(values) / seconds:.0f} a second, "
              f"p50 {quantile(values, .5):.2f} ms, p99 {quantile(values, .99):.2f} ms, "
              f"most {quantile(values, 1):.1f} ms")
    print(f"statuses: {dict(seen)}")
    for at, what in enumerate(["wall clock", "CPU"]):
        pairs = [(some[at], other[at]) for some, other in zip(load, peace)]
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{what}: {ratio:.3f} times as much under load;",
              ", ".join(f"{a:.1f} / {b:.1f} s" for a, b in pairs))
    print(f"CPU of the clients: {spent:.1f} s")


if __name__ == "__main__":
    main()
