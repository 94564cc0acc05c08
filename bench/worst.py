#!/usr/bin/env python3
"""Measures blocks that cost as much as a legal block can, by Apus and by bitcoind.

    bench/worst.py [--apus PROGRAM] [--blocks N] [--only REGEX] [--out TABLE.md] --bitcoind PROGRAM DIR

For each kind of block, a regtest chain is made in DIR: 101 blocks with nothing but a coinbase, those
that create what is spent, and N blocks of the kind. `apus sync` stores it. Then the coins are built
anew with every script checked, by bitcoind (`-reindex-chainstate -assumevalid=0`), by Apus with the
blocks as new ones, which Core's engine checks, and by Apus with the blocks as old ones, which the
fast engine checks. What the chain below these blocks takes is subtracted. The table has the CPU
seconds of one block, and how many times as many bitcoind takes.
"""

import argparse
import hashlib
import os
import re
import shutil
import struct
import subprocess

GENESIS = bytes.fromhex("06226e46111a0b59caaf126043eb5bbf28c34f3a5e332a1fc7b2b73cf188910f")
BITS = 0x207FFFFF
MAGIC = bytes.fromhex("fabfb5da")
COIN = 100_000_000
SPENT = 1000


def sha256(data):
    return hashlib.sha256(data).digest()


def sha256d(data):
    return sha256(sha256(data))


def size(count):
    """Returns a compact size."""
    if count < 0xFD:
        return bytes([count])
    if count <= 0xFFFF:
        return b"\xfd" + struct.pack("<H", count)
    return b"\xfe" + struct.pack("<I", count)


def push(data):
    if len(data) < 76:
        return bytes([len(data)]) + data
    if len(data) < 256:
        return b"\x4c" + bytes([len(data)]) + data
    if len(data) < 65536:
        return b"\x4d" + struct.pack("<H", len(data)) + data
    return b"\x4e" + struct.pack("<I", len(data)) + data


# secp256k1, for taproot outputs that commit to one leaf, by the base point as the internal key.
FIELD = 2**256 - 2**32 - 977
BASE = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, FIELD)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, FIELD)
    x = (slope * slope - a[0] - b[0]) % FIELD
    return x, (slope * (a[0] - x) - a[1]) % FIELD


def times(factor, point):
    result = None
    while factor:
        if factor & 1:
            result = add(result, point)
        point = add(point, point)
        factor >>= 1
    return result


def tagged(tag, data):
    return sha256(sha256(tag) * 2 + data)


def leaf(script, version=0xC0):
    """Returns the output script that commits to a leaf, and the control block."""
    internal = BASE[0].to_bytes(32, "big")
    root = tagged(b"TapLeaf", bytes([version]) + size(len(script)) + script)
    tweak = int.from_bytes(tagged(b"TapTweak", internal + root), "big")
    x, y = add(BASE, times(tweak, BASE))
    return b"\x51\x20" + x.to_bytes(32, "big"), bytes([version | y & 1]) + internal


class Tx:
    """A transaction: inputs are (outpoint, scriptSig, witness), outputs (amount, script)."""

    def __init__(self, inputs, outputs):
        self.inputs, self.outputs = inputs, outputs

    def bytes(self, witness=True):
        witness = witness and any(stack for _, _, stack in self.inputs)
        parts = [struct.pack("<i", 2), b"\x00\x01" if witness else b"", size(len(self.inputs))]
        for outpoint, script, _ in self.inputs:
            parts += [outpoint, size(len(script)), script, b"\xff" * 4]
        parts.append(size(len(self.outputs)))
        for amount, script in self.outputs:
            parts += [struct.pack("<q", amount), size(len(script)), script]
        if witness:
            for _, _, stack in self.inputs:
                parts += [size(len(stack))] + [size(len(item)) + item for item in stack]
        return b"".join(parts + [b"\x00" * 4])

    def txid(self):
        return sha256d(self.bytes(False))


def merkle(hashes):
    while len(hashes) > 1:
        if len(hashes) % 2:
            hashes = hashes + hashes[-1:]
        hashes = [sha256d(hashes[i] + hashes[i + 1]) for i in range(0, len(hashes), 2)]
    return hashes[0]


class Chain:
    """A chain of regtest in a file of framed blocks."""

    def __init__(self, path):
        self.file, self.tip, self.height, self.time = open(path, "wb"), GENESIS, 0, 1_600_000_000
        self.money = []
        for _ in range(101):
            self.block([])

    def block(self, txs):
        """Adds a block with these transactions, which pay no fees."""
        self.height, self.time = self.height + 1, self.time + 600
        number = self.height.to_bytes((self.height.bit_length() + 8) // 8, "little")
        script = push(number) + b"\x00" if self.height > 16 else bytes([80 + self.height, 0])
        amount = 50 * COIN >> self.height // 150
        nonce = [bytes(32)] if txs else []
        outputs = [(amount, b"\x51")]
        if txs:
            wtxids = [bytes(32)] + [sha256d(tx.bytes()) for tx in txs]
            commitment = sha256d(merkle(wtxids) + bytes(32))
            outputs.append((0, b"\x6a\x24\xaa\x21\xa9\xed" + commitment))
        coinbase = Tx([(bytes(32) + b"\xff" * 4, script, nonce)], outputs)
        if self.height <= 100:
            self.money.append((coinbase.txid() + bytes(4), amount))
        root = merkle([coinbase.txid()] + [tx.txid() for tx in txs])
        head = struct.pack("<i", 0x20000000) + self.tip + root + struct.pack("<II", self.time, BITS)
        tries = (head + struct.pack("<I", nonce) for nonce in range(1 << 32))
        head = next(head for head in tries if sha256d(head)[31] < 0x7F)
        self.tip = sha256d(head)
        raw = head + size(len(txs) + 1) + coinbase.bytes() + b"".join(tx.bytes() for tx in txs)
        self.file.write(MAGIC + struct.pack("<I", len(raw)) + raw)


def spend(chain, kinds, blocks):
    """Adds blocks of one transaction each, that spends the outputs of some kinds: (script, number in
    each block, scriptSig, witness)."""
    created = []
    for script, count, script_sig, witness in kinds:
        most = min(900_000 // (len(script) + 11), 50_000)
        left = count * blocks
        while left > 0:
            some = min(left, most)
            outpoint, _ = chain.money.pop(0)
            tx = Tx([(outpoint, b"", [])], [(SPENT, script)] * some)
            chain.block([tx])
            txid = tx.txid()
            points = [txid + struct.pack("<I", n) for n in range(some)]
            created += [(point, script_sig, witness) for point in points]
            left -= some
    base = chain.height
    kinds_first, at = [], 0
    for _, count, _, _ in kinds:
        kinds_first.append((at, count))
        at += count * blocks
    txs = []
    for block in range(blocks):
        inputs = []
        for first, count in kinds_first:
            inputs += created[first + block * count : first + (block + 1) * count]
        txs.append(Tx(inputs, [(SPENT, b"\x51")]))
    return base, txs


TRUE = b"\x51"
LONG = (push(b"\x07" * 519) + b"\x75") * 19 + TRUE
SUCCESS, SUCCESS_CONTROL = leaf(b"\x50")
SEPARATOR, SEPARATOR_CONTROL = leaf(b"\xab\x51")
# One opcode in this many bytes, in a leaf of nearly 4 MB.
NOPS = b"\x61" * 3_900_000 + TRUE
HASHES = push(b"\x07" * 520) + b"\x76\xa8\x75" * 1_299_000 + b"\x75" + TRUE
SHA1 = HASHES.replace(b"\x76\xa8\x75", b"\x76\xa7\x75")
RIPEMD = HASHES.replace(b"\x76\xa8\x75", b"\x76\xa6\x75")
# A signature in DER that is not valid, which a script may demand.
WRONG = bytes.fromhex("3006020101020101") + b"\x01"
KEY = bytes.fromhex("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")


def one_leaf(script):
    output, control = leaf(script)
    return [(output, 1, b"", [script, control])]


KINDS = {
    "unknown witness version": [(b"\x60\x02\x01\x01", 24_000, b"", [])],
    "P2A": [(b"\x51\x02\x4e\x73", 24_000, b"", [])],
    "anyone can spend": [(TRUE, 24_000, b"", [])],
    "OP_SUCCESS in leaves": [(SUCCESS, 19_500, b"", [b"\x50", SUCCESS_CONTROL])],
    "OP_CODESEPARATOR in leaves": [(SEPARATOR, 19_000, b"", [b"\xab\x51", SEPARATOR_CONTROL])],
    "long spent scripts": [(LONG, 4_000, b"", [])],
    "long spent scripts and leaves": [
        (LONG, 3_000, b"", []),
        (SUCCESS, 15_000, b"", [b"\x50", SUCCESS_CONTROL]),
    ],
    "wrong legacy signatures": [(push(KEY) + b"\xac\x91", 5_000, push(WRONG), [])],
    "leaf of 3.9 million NOPs": one_leaf(NOPS),
    "leaf of SHA-256": one_leaf(HASHES),
    "leaf of SHA-1": one_leaf(SHA1),
    "leaf of RIPEMD-160": one_leaf(RIPEMD),
    "witness of 3.9 MB": [(b"\x60\x02\x01\x01", 1, b"", [b"\x07" * 3_900_000])],
}


def many_outputs(chain, blocks):
    points = [chain.money.pop(0)[0] for _ in range(blocks)]
    return chain.height, [Tx([(point, b"", [])], [(1, b"")] * 110_000) for point in points]


def long_outputs(chain, blocks):
    points = [chain.money.pop(0)[0] for _ in range(blocks)]
    return chain.height, [Tx([(point, b"", [])], [(1, LONG)] * 99) for point in points]


def many_txs(chain, blocks):
    base, txs = spend(chain, [(TRUE, 16_000, b"", [])], blocks)
    return base, [[Tx([one], [(SPENT, TRUE)]) for one in tx.inputs] for tx in txs]


def many_copies(chain, blocks):
    """20 transactions, each of 195 inputs that spend 10,000 bytes and 137 that spend a leaf."""
    leaves = (SUCCESS, 20 * 137, b"", [b"\x50", SUCCESS_CONTROL])
    base, txs = spend(chain, [(LONG, 20 * 195, b"", []), leaves], blocks)
    split = []
    for tx in txs:
        long, leaf_inputs = tx.inputs[: 20 * 195], tx.inputs[20 * 195 :]
        split.append([
            Tx(long[195 * i : 195 * (i + 1)] + leaf_inputs[137 * i : 137 * (i + 1)], [(SPENT, TRUE)])
            for i in range(20)
        ])
    return base, split


OTHERS = {"long spent scripts and leaves, 20 transactions": many_copies, "most outputs": many_outputs, "10,000 bytes in each output": long_outputs,
          "most transactions": many_txs}


# A build with debug assertions has both engines check each input, unless one is named.
ORDER = ["--method=order", "--script-engine=fast"]


def timed(command):
    """Runs a program, and returns its CPU seconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command} failed with status {status}: {error.decode()}")
    return used.ru_utime + used.ru_stime


def reindexed(asked, data, base, tip):
    """Returns the CPU seconds that Apus takes for each block above `base`."""
    apus = [asked.apus, "reindex", "--regtest", f"--datadir={data}", *ORDER]
    used = [timed([*apus, "--assumevalid=0", f"--stopatheight={end}"]) for end in (base, tip)]
    return max(used[1] - used[0], 0.001) / (tip - base)


def by_bitcoind(asked, data, base, tip):
    """Returns the CPU seconds that bitcoind takes for each block above `base`."""
    core = [asked.bitcoind, f"-datadir={data}", "-regtest", "-listen=0", "-connect=0", "-server=0"]
    core += ["-reindex-chainstate", "-assumevalid=0"]
    used = [timed([*core, f"-stopatheight={end}"]) for end in (base, tip)]
    return max(used[1] - used[0], 0.001) / (tip - base)


def row(asked, name):
    """Makes the chain of a kind, and returns its row of the table."""
    shutil.rmtree(asked.dir, ignore_errors=True)
    data, path = os.path.join(asked.dir, "datadir"), os.path.join(asked.dir, "chain")
    os.makedirs(data)
    chain = Chain(path)
    if name in KINDS:
        base, txs = spend(chain, KINDS[name], asked.blocks)
    else:
        base, txs = OTHERS[name](chain, asked.blocks)
    for tx in txs:
        chain.block(tx if isinstance(tx, list) else [tx])
    sync = [asked.apus, "sync", "--regtest", f"--datadir={data}", "--from", path, *ORDER]
    sync.append("--assumevalid=0")
    chain.file.flush()
    timed(sync)
    tip = chain.height
    core, new = by_bitcoind(asked, data, base, tip), reindexed(asked, data, base, tip)
    # Two weeks of blocks on top make the others old.
    for _ in range(2_100):
        chain.block([])
    chain.file.close()
    timed(sync)
    old = reindexed(asked, data, base, tip)
    shutil.rmtree(asked.dir)
    return f"| {name} | {core:.2f} | {new:.2f} | {core / new:.1f} | {old:.2f} | {core / old:.1f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--apus", default="target/release/apus")
    parser.add_argument("--bitcoind", required=True)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--out")
    parser.add_argument("dir")
    asked = parser.parse_args()
    rows = []
    for name in [*KINDS, *OTHERS]:
        if re.search(asked.only or "", name):
            rows.append(row(asked, name))
            print(rows[-1], flush=True)
    head = ["| block | bitcoind | Apus, new blocks | times | Apus, old blocks | times |"]
    head.append("|---|---|---|---|---|---|")
    if asked.out:
        with open(asked.out, "w") as out:
            out.write("\n".join(head + rows) + "\n")


if __name__ == "__main__":
    main()
