#!/usr/bin/env python3
"""Floods the server of a running `apus reindex --server --rest`, and measures both.

    bench/strangers.py [--apus PROGRAM] [--dir DIR] [--connections 10000] [--pairs 3] CHAIN

CHAIN is a file of regtest blocks, as `apus-testchain` writes it. It is synced once; then its UTXO
set is built again, by turns in peace and under the load of strangers: CONNECTIONS connections that
are silent, send a body or read an answer slowly, give wrong passwords, or ask for odd paths, opened
again as soon as they are closed, as fast as a tenth of them a second. One honest client calls
`getblockcount` on a connection of its own every 50 ms. Printed are its times, how long the work
took, and the most memory. The clients run before other programs (nice -10, if allowed), on the same
processors: what they take themselves is measured by one more run against a server that listens on
another port.
"""

import argparse
import asyncio
import base64
import multiprocessing
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

PROCESSES = 4
GENESIS = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"


def kinds(password):
    """What strangers send: the whole of it, and how fast they read."""
    def head(method, path, *lines):
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()
    wrong = "Authorization: Basic " + base64.b64encode(password.encode()).decode()
    return [
        (lambda n: b"", False),
        (lambda n: b"GET / HTTP/1.1\r\nHost", False),
        (lambda n: head("POST", "/rest/getutxos.bin", "Content-Length: 1"), False),
        (lambda n: head("POST", "/rest/getutxos.bin", "Content-Length: 33554432"), False),
        (lambda n: head("GET", "/rest/headers/2000/" + GENESIS + ".json"), False),
        (lambda n: head("POST", "/", wrong, "Content-Length: 0"), True),
        (lambda n: head("GET", f"/rest/x{n}.bin"), True),
        (lambda n: head("GET", "/healthz"), True),
    ]


async def stranger(port, number, pause, gone):
    all_kinds = kinds("me:wrong")
    while not gone.is_set():
        await asyncio.sleep(random.random() * 2 * pause)
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 12)
            send, reads = all_kinds[number % len(all_kinds)]
            writer.write(send(random.randrange(1 << 30)))
            if reads:
                await asyncio.wait_for(reader.read(1 << 12), 10)
            else:
                # Until the server closes the connection.
                while not gone.is_set() and await asyncio.wait_for(reader.read(16), 60):
                    await asyncio.sleep(5)
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            if writer:
                writer.close()


def strangers(first, number, port, gone):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def together():
        await asyncio.gather(*[stranger(port, first + n, 5, gone) for n in range(number)])
    asyncio.run(together())


async def honest(port, cookie, gone, times):
    auth = base64.b64encode(cookie.encode()).decode()
    body = b'{"method":"getblockcount","id":1}'
    request = (f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {auth}\r\n"
               f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body
    while not gone():
        begun = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            answer = await reader.read()
            times.append(time.monotonic() - begun if b"result" in answer else 60)
            writer.close()
        except ConnectionRefusedError:
            # The work is done, and nobody listens.
            pass
        except OSError:
            if not gone():
                times.append(60)
        await asyncio.sleep(0.05)


def run(args, number, port, aimed_at):
    """Builds the UTXO set again. Returns seconds, times of the honest client, and peak kB."""
    cookie = os.path.join(args.dir, "d", "regtest", ".cookie")
    command = [args.apus, "reindex", "--regtest", "--datadir", os.path.join(args.dir, "d"),
               "--server", "--rest", f"--rpcport={port}", "--quiet"]
    gone = multiprocessing.Event()
    share = number // PROCESSES
    processes = [multiprocessing.Process(target=strangers, args=(n * share, share, aimed_at, gone))
                 for n in range(PROCESSES)] if share else []
    for process in processes:
        process.start()
    begun = time.monotonic()
    program = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not os.path.exists(cookie) and program.poll() is None:
        time.sleep(0.01)
    times = []
    password = open(cookie).read()
    peak = 0

    def ended():
        nonlocal peak
        try:
            with open(f"/proc/{program.pid}/status") as status:
                for line in status:
                    if line.startswith("VmHWM"):
                        peak = int(line.split()[1])
        except OSError:
            pass
        return program.poll() is not None
    asyncio.run(honest(port, password, ended, times))
    took = time.monotonic() - begun
    gone.set()
    for process in processes:
        process.terminate()
        process.join()
    return took, times, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--apus", default="target/release/apus")
    parser.add_argument("--dir", default="target/bench/strangers")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--port", type=int, default=18_777)
    parser.add_argument("chain")
    args = parser.parse_args()
    shutil.rmtree(args.dir, ignore_errors=True)
    os.makedirs(args.dir)
    subprocess.run([args.apus, "sync", "--regtest", "--datadir", os.path.join(args.dir, "d"), "--from",
                    args.chain, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    # A program that accepts nothing: connections to it cost the clients as much.
    for name, number, aimed_at in [("in peace", 0, args.port), ("clients alone", args.connections, 1),
                                   ("strangers", args.connections, args.port)] * args.pairs:
        took, times, peak = run(args, number, args.port, aimed_at)
        times.sort()
        of = (lambda share: 1000 * times[min(len(times) - 1, int(share * len(times)))]) if times else None
        print(f"{name:14} {took:7.2f} s, peak {peak / 1024:6.0f} MiB, getblockcount "
              f"{len(times)} times: median {of(0.5):.1f} ms, 99 % {of(0.99):.1f} ms, "
              f"longest {times[-1] * 1000:.1f} ms" if times else f"{name:14} {took:7.2f} s")
        sys.stdout.flush()
    shutil.rmtree(args.dir)


if __name__ == "__main__":
    main()
