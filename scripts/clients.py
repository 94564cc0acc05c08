#!/usr/bin/env python3
"""Lets other Bitcoin programs download from Apus, serve it and call it, on regtest.

    scripts/clients.py APUS BITCOIND DIRECTORY     (scripts/clients.sh installs them in DIRECTORY)

CLIENTS_LOGS=DIRECTORY keeps their logs. The chain goes from bitcoind to Apus, from there to btcd,
bitcoinj and neutrino, and from btcd to a second Apus. All must follow each reorganisation.
Then the libraries make the same calls to bitcoind and to Apus, whose answers may differ only where
DIFFERENCES says so.
"""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent / "clients"
apus, bitcoind, installed = (Path(argument).absolute() for argument in sys.argv[1:])
DEPTHS = range(1, 21)
FOLLOWS_WITHIN = 60
KEY = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA"
ADDRESS = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
# Calls that bitcoind answers differently, by the name that the programs print.
DIFFERENCES = {
    "getmempoolinfo": "there is no mempool",
    "rest mempool info": "there is no mempool",
    "getzmqnotifications": "this bitcoind is built without ZMQ",
}

ports = {}
processes = []


def port(name):
    if name not in ports:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ports[name] = str(listener.getsockname()[1])
    return ports[name]


class Failed(Exception):
    pass


def call(node, method, *parameters):
    connection = http.client.HTTPConnection("127.0.0.1", int(port(node + " rpc")), timeout=60)
    body = json.dumps({"jsonrpc": "1.0", "id": 1, "method": method, "params": parameters})
    password = base64.b64encode(b"u:p").decode()
    headers = {"Authorization": f"Basic {password}", "Content-Type": "application/json"}
    connection.request("POST", "/", body, headers)
    answer = json.loads(connection.getresponse().read())
    if answer["error"]:
        raise Failed(f"{method}: {answer['error']}")
    return answer["result"]


def start(name, *command):
    log = open(root / f"{name}.log", "w")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    processes.append(process)
    return process


def start_apus(name, command, *options):
    directory = root / options[0]
    directory.mkdir(exist_ok=True)
    listens = [f"--bind=127.0.0.1:{port(name)}", f"--rpcport={port(name + ' rpc')}"]
    if command == "sync":
        listens += ["--listen", "--server", "--follow"]
    common = ["--regtest", f"--datadir={directory}", "--rpcuser=u", "--rpcpassword=p", "--rest"]
    return start(name, apus, command, *common, "--debug=net", *listens, *options[1:])


def start_btcd(name, source):
    directory = root / name
    directory.mkdir()
    (directory / "btcd.conf").touch()
    start(
        name, installed / "bin/btcd", "--regtest", "--notls", "--nodnsseed", "--rpcuser=u",
        "--rpcpass=p", f"--configfile={directory}/btcd.conf", f"--datadir={directory}",
        f"--logdir={directory}", f"--listen=127.0.0.1:{port(name)}",
        f"--rpclisten=127.0.0.1:{port(name + ' rpc')}", f"--connect=127.0.0.1:{port(source)}",
        "--debuglevel=debug",
    )  # fmt: skip


def start_bitcoinj(name, source):
    start_follower(name, "java", "-cp", f"{installed}/jars/*", HERE / "Follow.java", port(source))


def start_neutrino(name, source):
    start_follower(name, installed / "filters", port(source))


def start_follower(name, *command):
    """Starts a program that prints the hash of each best block."""
    log = open(root / f"{name}.log", "w")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    processes.append(process)
    heads[name] = ""

    def read():
        for line in process.stdout:
            heads[name] = line.strip()

    threading.Thread(target=read, daemon=True).start()


heads = {}


def tip_of(follower):
    if follower in heads:
        return heads[follower]
    try:
        return call(follower, "getbestblockhash")
    except (OSError, Failed, ValueError):
        return None


def wait_for(what, followers, within=FOLLOWS_WITHIN):
    """Waits until all have bitcoind's tip, and prints after how many seconds each had it."""
    began, tip, times = time.monotonic(), call("bitcoind", "getbestblockhash"), {}
    while len(times) < len(followers) and time.monotonic() < began + within:
        for follower in followers:
            if follower not in times and tip_of(follower) == tip:
                times[follower] = time.monotonic() - began
        time.sleep(0.02)
    seconds = {name: f"{times[name]:.1f}" if name in times else "NEVER" for name in followers}
    words = [f"{name} {time}" for name, time in seconds.items()]
    print(f"{what:>16} height {call('bitcoind', 'getblockcount')}: {', '.join(words)}", flush=True)
    for name in [name for name in followers if name not in times]:
        failures.append(f"{name}: {what}")
        followers.remove(name)


failures = []


def mine(blocks, address=ADDRESS):
    return call("bitcoind", "generatetoaddress", blocks, address)


def spend():
    """Mines a block that spends a coinbase."""
    height = call("bitcoind", "getblockcount") - 100
    block = call("bitcoind", "getblock", call("bitcoind", "getblockhash", height), 2)
    coinbase = block["tx"][0]
    inputs = [{"txid": coinbase["txid"], "vout": 0}]
    outputs = [{ADDRESS: round(float(coinbase["vout"][0]["value"]) - 0.001, 8)}]
    made = call("bitcoind", "createrawtransaction", inputs, outputs)
    signed = call("bitcoind", "signrawtransactionwithkey", made, [KEY])
    call("bitcoind", "generateblock", ADDRESS, [signed["hex"]])


def reorganise(depth):
    height = call("bitcoind", "getblockcount")
    call("bitcoind", "invalidateblock", call("bitcoind", "getblockhash", height - depth + 1))
    # Another address, so that the blocks differ.
    script = "5120" + f"{height:08x}" * 8
    mine(depth + 1, call("bitcoind", "decodescript", script)["address"])


def compare(name, *command):
    """Runs a program that makes calls against both nodes, and compares what it prints."""
    answers = []
    for node in ("bitcoind", "apus"):
        done = subprocess.run(
            [*command, port(node + " rpc")], capture_output=True, text=True, cwd=installed
        )
        if done.returncode != 0:
            failures.append(f"{name}: {done.stderr[-1000:]}")
        answers.append(dict(line.split("\t", 1) for line in done.stdout.splitlines()))
    core, ours = answers
    for what in core | ours:
        if core.get(what) != ours.get(what):
            reason = DIFFERENCES.get(what)
            print(f"  {name} {what}: {reason or 'DIFFERS'}")
            print(f"    bitcoind {core.get(what)}"[:300])
            print(f"    apus     {ours.get(what)}"[:300], flush=True)
            if reason is None:
                failures.append(f"{name}: {what}")
    print(f"{name}: {len(core)} calls compared", flush=True)


def run():
    (root / "bitcoind").mkdir()
    start(
        "bitcoind", bitcoind, "-regtest", f"-datadir={root}/bitcoind", "-rpcuser=u",
        "-rpcpassword=p", f"-rpcport={port('bitcoind rpc')}", "-connect=0", "-listen=1",
        f"-bind=127.0.0.1:{port('bitcoind')}", "-txindex", "-blockfilterindex",
        "-peerblockfilters", "-rest",
    )  # fmt: skip
    until = time.monotonic() + 60
    while tip_of("bitcoind") is None and time.monotonic() < until:
        time.sleep(0.1)
    mine(150)
    spend()
    connect = f"--connect=127.0.0.1:{port('bitcoind')}"
    filters = ["--blockfilterindex", "--peerblockfilters"]
    start_apus("apus", "sync", "first", connect, "--txindex", *filters)
    wait_for("first sync", ["apus"])
    followers = ["apus", "btcd", "behind btcd", "bitcoinj", "neutrino"]
    start_btcd("btcd", "apus")
    wait_for("first sync", ["btcd"])
    start_apus("behind btcd", "sync", "second", f"--connect=127.0.0.1:{port('btcd')}")
    start_bitcoinj("bitcoinj", "apus")
    start_neutrino("neutrino", "apus")
    wait_for("first sync", followers)
    for depth in DEPTHS:
        reorganise(depth)
        wait_for(f"reorganised {depth}", followers)
        mine(1)
        wait_for("next block", followers)
    spend()
    wait_for("spend", followers)
    compare("rpcclient", installed / "calls")
    compare("python-bitcoinlib", installed / "python/bin/python", HERE / "calls.py")
    compare("npm bitcoin-core", "node", installed / "calls.js")
    processes[1].terminate()
    processes[1].wait()
    start_apus("serve", "serve", "first", "--peerblockfilters")
    start_btcd("btcd of serve", "serve")
    start_bitcoinj("bitcoinj of serve", "serve")
    start_neutrino("neutrino of serve", "serve")
    wait_for("from serve", ["btcd of serve", "bitcoinj of serve", "neutrino of serve"])


with tempfile.TemporaryDirectory() as name:
    root = Path(os.environ.get("CLIENTS_LOGS") or name)
    root.mkdir(exist_ok=True)
    try:
        run()
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
if failures:
    sys.exit("\n".join(["failed:", *failures]))
print("all programs work with Apus")
