#!/usr/bin/env python3
"""Measures blocks that cost as much as a legal block can, by Apus and by bitcoind.

    bench/worst.py [--apus PROGRAM] [--blocks N] [--only REGEX] [--out TABLE] --bitcoind PROGRAM DIR

For each kind of block, a chain of regtest is made in DIR: 101 blocks with only a coinbase, those which
create what is spent, and N blocks of the kind. `apus sync` stores it. Then the coins are built
anew with every script checked, by bitcoind (`-reindex-chainstate -assumevalid=0`), by Apus with the
blocks as new ones, which Core's engine checks, and by Apus with the blocks as old ones, which the
fast engine checks. What the chain below these blocks takes is subtracted. The table has the CPU
seconds of one block, and how many times as many bitcoind takes.
"""

import argparse
import os
import re
import shutil
import struct
import subprocess

from worst_chain import SPENT, Chain, Tx, ecdsa, framed, hash160, leaf, leaf_hash, public, push
from worst_chain import schnorr, sha256, size


def spend(chain, kinds, blocks, txs=1, outputs=1):
    """Adds blocks with outputs of some kinds, and returns the transactions of later blocks that
    spend them, `txs` in each: kinds are (script, number in each block, scriptSig, witness). A
    script or scriptSig may be a function: of the number of the output, or of the transaction and
    the number of the input, of which it returns the scriptSig and the witness."""
    created = []
    for script, count, script_sig, witness in kinds:
        first = script(0) if callable(script) else script
        most = min(900_000 // (len(first) + 11), 50_000, 80_000 // max(4 * sigops(first), 1))
        points = []
        while len(points) < count * blocks:
            some = min(count * blocks - len(points), most)
            outpoint, _ = chain.money.pop(0)
            numbers = range(len(points), len(points) + some)
            scripts = [script(number) if callable(script) else script for number in numbers]
            tx = Tx([(outpoint, b"", [])], [(SPENT, each) for each in scripts])
            chain.block([tx])
            txid = tx.txid()
            for vout, each in enumerate(scripts):
                point = txid + struct.pack("<I", vout)
                points.append(((point, script_sig, witness), each, len(points)))
        created.append((points, count))
    built = []
    for block in range(blocks):
        inputs = []
        for points, count in created:
            inputs += points[block * count : (block + 1) * count]
        each = -(-len(inputs) // txs)
        built.append([])
        for first in range(0, len(inputs), each):
            some = inputs[first : first + each]
            inputs_of, scripts, numbers = zip(*some)
            paid = [(max(SPENT // outputs, 1), TRUE)] * outputs
            tx = Tx(list(inputs_of), paid, scripts, numbers)
            tx.sign()
            built[-1].append(tx)
    return chain.height, built


def sigops(script):
    """Returns the signature operations of an output's script (Core's inaccurate count)."""
    count, at = 0, 0
    while at < len(script):
        code = script[at]
        at += 1 + (code if code <= 75 else 0)
        if code == 0x4C:
            at += 1 + script[at]
        elif code == 0x4D:
            at += 2 + int.from_bytes(script[at : at + 2], "little")
        count += {0xAC: 1, 0xAD: 1, 0xAE: 20, 0xAF: 20}.get(code, 0)
    return count


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


def code_of(script):
    """Returns a function of the number of an output, if the script is not one already."""
    return script if callable(script) else lambda _: script


def p2pkh(number):
    return b"\x76\xa9\x14" + hash160(public(number)) + b"\x88\xac"


def p2pk(number):
    return push(public(number)) + b"\xac"


def long_p2pk(number):
    return LONG[:-1] + p2pk(number)


def multisig(needed, keys):
    """Returns a script that asks for signatures by some of the first keys."""
    pushed = b"".join(push(public(number)) for number in range(keys))
    return small(needed) + pushed + small(keys) + b"\xae"


def small(value):
    return bytes([80 + value]) if value <= 16 else bytes([1, value])


def legacy(script, signers=None, last=lambda _: b"", kind=1):
    """Returns what signs for a legacy script: signatures for a multisig by some keys, or one by the
    key of the output's number, and what is pushed after them."""

    def sign(tx, index):
        message = tx.legacy(index, code_of(script)(tx.numbers[index]), kind)
        by = signers or [tx.numbers[index]]
        signatures = b"".join(push(ecdsa(signer, message, kind)) for signer in by)
        return b"\x00" * bool(signers) + signatures + last(tx.numbers[index]), []

    return sign


def v0(script, signers=None, script_sig=None, has_key=False):
    """Returns what signs for a script of version 0: as for a legacy one, with the script or the key
    after the signatures."""

    def sign(tx, index):
        code = code_of(script)(tx.numbers[index])
        message = tx.v0(index, code)
        by = signers or [tx.numbers[index]]
        sigs = [b""] * bool(signers) + [ecdsa(signer, message) for signer in by]
        outer = script_sig(tx.numbers[index]) if script_sig else b""
        return outer, [*sigs, public(by[0]) if has_key else code]

    return sign


def p2wpkh(number):
    return b"\x00\x14" + hash160(public(number))


def p2sh(script):
    return lambda number: b"\xa9\x14" + hash160(script(number)) + b"\x87"


def p2wsh(script):
    return lambda number: b"\x00\x20" + sha256(code_of(script)(number))


def key_path(tx, index):
    return b"", [schnorr(tx.numbers[index], tx.taproot(index))]


def by_key(number):
    return b"\x51\x20" + public(number)[1:]


def by_leaf(script, annex=None):
    """Returns what spends an output that commits to a leaf, with a signature by key 0."""
    _, control = leaf(script)

    def sign(tx, index):
        signature = schnorr(0, tx.taproot(index, leaf_hash(script), annex))
        return b"", [signature, script, control] + [annex] * (annex is not None)

    return sign


FIRST_OF_20 = multisig(1, 20)
FIRST_OF_15 = multisig(1, 15)
FIRST_OF_15_SIGNED = legacy(FIRST_OF_15, [0], lambda _: push(FIRST_OF_15))
TWENTY = multisig(20, 20)
LEAF_WITH_KEY = push(public(0)[1:]) + b"\xac"
# Each signature takes 50 bytes of the weight of its witness, here of an annex.
MANY_CHECKS = push(public(0)[1:]) + b"\x6e\xad" * 77_000 + b"\x6d" + TRUE
ANNEX = b"\x50" + b"\x07" * 3_740_000
# A signature that need not be valid.
ANY_KEY = push(KEY) + b"\xac\x75" + TRUE
WRONG_KEY = push(KEY) + b"\xac\x91"
HASHED_FIRST = push(b"\x07" * 520) + b"\x76\xa8\x75" * 65 + b"\x75" + ANY_KEY
ROLLED = b"\x51" * 990 + (b"\x02" + b"\xd0\x03" + b"\x7a") * 970_000

# Outputs that are spent in each block, as for `spend`, and perhaps the number of transactions that
# spend them and of their outputs.
KINDS = {
    "unknown witness version": ([(b"\x60\x02\x01\x01", 24_000, b"", [])],),
    "P2A": ([(b"\x51\x02\x4e\x73", 24_000, b"", [])],),
    "anyone can spend": ([(TRUE, 24_000, b"", [])],),
    "most transactions": ([(TRUE, 16_000, b"", [])], 16_000),
    "OP_SUCCESS in leaves": ([(SUCCESS, 19_500, b"", [b"\x50", SUCCESS_CONTROL])],),
    "OP_CODESEPARATOR in leaves": ([(SEPARATOR, 19_000, b"", [b"\xab\x51", SEPARATOR_CONTROL])],),
    "long spent scripts": ([(LONG, 4_000, b"", [])],),
    "long spent scripts and leaves": (
        [(LONG, 3_000, b"", []), (SUCCESS, 15_000, b"", [b"\x50", SUCCESS_CONTROL])],
    ),
    "P2PK": ([(p2pk, 8_600, legacy(p2pk), [])],),
    "P2PK, half of the block outputs": ([(p2pk, 4_300, legacy(p2pk), [])], 1, 48_000),
    "P2PK, SIGHASH_NONE": ([(p2pk, 8_600, legacy(p2pk, kind=2), [])],),
    "P2PK, 430 transactions": ([(p2pk, 8_600, legacy(p2pk), [])], 430),
    "P2PKH, 330 transactions": (
        [(p2pkh, 6_600, legacy(p2pkh, last=lambda number: push(public(number))), [])], 330
    ),
    "P2WPKH": ([(p2wpkh, 14_500, v0(p2pkh, has_key=True), [])],),
    "P2SH-P2WPKH": (
        [(p2sh(p2wpkh), 10_800, v0(p2pkh, script_sig=lambda n: push(p2wpkh(n)), has_key=True), [])],
    ),
    "P2WSH": ([(p2wsh(p2pk), 13_000, v0(p2pk), [])],),
    "P2TR, key": ([(by_key, 17_300, key_path, [])],),
    "P2TR, key, 10 transactions": ([(by_key, 17_200, key_path, [])], 10),
    "P2TR, key, 26 transactions": ([(by_key, 17_100, key_path, [])], 26),
    "P2TR, key, 100 transactions": ([(by_key, 17_000, key_path, [])], 100),
    "P2TR, leaf with a key": (
        [(leaf(LEAF_WITH_KEY)[0], 13_000, by_leaf(LEAF_WITH_KEY), [])],
    ),
    "leaf of 77,000 signatures": ([(leaf(MANY_CHECKS)[0], 1, by_leaf(MANY_CHECKS, ANNEX), [])],),
    "multisig, the first of 20 keys": (
        [(FIRST_OF_20, 8_500, legacy(FIRST_OF_20, [0]), [])], 850
    ),
    "multisig, 20 of 20 keys": (
        [(TWENTY, 630, legacy(TWENTY, list(range(20))), [])], 63
    ),
    "P2SH multisig, the first of 15 keys": (
        [(p2sh(code_of(FIRST_OF_15)), 1_330, FIRST_OF_15_SIGNED, [])], 133
    ),
    "P2WSH multisig, the first of 20 keys": (
        [(p2wsh(FIRST_OF_20), 3_990, v0(FIRST_OF_20, [0]), [])],
    ),
    "scripts of 10,000 bytes with a key": ([(long_p2pk, 2_000, legacy(long_p2pk), [])], 200),
    "wrong legacy signatures": ([(WRONG_KEY, 5_000, push(WRONG), [])],),
    "wrong legacy signatures, each verified": ([(ANY_KEY, 5_000, push(WRONG), [])],),
    "wrong legacy signatures, 500 transactions": ([(WRONG_KEY, 5_000, push(WRONG), [])], 500),
    "wrong signatures of multisig": (
        [(FIRST_OF_20 + b"\x75" + TRUE, 8_500, b"\x00" + push(WRONG), [])], 850
    ),
    "wrong signatures of P2WSH": ([(p2wsh(ANY_KEY), 14_000, b"", [WRONG, ANY_KEY])],),
    "SHA-256 before wrong signatures": (
        [(p2wsh(HASHED_FIRST), 3_900, b"", [WRONG, HASHED_FIRST])],
    ),
    "leaf of 3.9 million NOPs": (one_leaf(NOPS),),
    "leaf of SHA-256": (one_leaf(HASHES),),
    "leaf of SHA-1": (one_leaf(SHA1),),
    "leaf of RIPEMD-160": (one_leaf(RIPEMD),),
    "leaf of HASH160": (one_leaf(HASHES.replace(b"\x76\xa8\x75", b"\x76\xa9\x75")),),
    "leaf of RIPEMD-160 of nothing": (one_leaf(b"\x00\xa6\x75" * 1_300_000 + TRUE),),
    "leaf of OP_IF": (one_leaf(b"\x51\x63\x68" * 1_300_000 + TRUE),),
    "leaf of OP_ROLL": (one_leaf(ROLLED + b"\x75" * 989),),
    "leaf of OP_3DUP and OP_2DROP": (
        one_leaf(push(b"\x07" * 520) * 3 + b"\x6f\x6d\x75" * 1_290_000 + b"\x75" * 3 + TRUE),
    ),
    "leaf of OP_1ADD": (one_leaf(b"\x51" + b"\x8b" * 3_900_000),),
    "witness of 3.9 MB": ([(b"\x60\x02\x01\x01", 1, b"", [b"\x07" * 3_900_000])],),
}


def many_outputs(chain, blocks):
    points = [chain.money.pop(0)[0] for _ in range(blocks)]
    return chain.height, [[Tx([(point, b"", [])], [(1, b"")] * 110_000)] for point in points]


def long_outputs(chain, blocks):
    points = [chain.money.pop(0)[0] for _ in range(blocks)]
    return chain.height, [[Tx([(point, b"", [])], [(1, LONG)] * 99)] for point in points]


def many_copies(chain, blocks):
    """20 transactions, each of 195 inputs that spend 10,000 bytes and 137 that spend a leaf."""
    leaves = (SUCCESS, 20 * 137, b"", [b"\x50", SUCCESS_CONTROL])
    base, built = spend(chain, [(LONG, 20 * 195, b"", []), leaves], blocks)
    split = []
    for (tx,) in built:
        inputs = [tx.inputs[i : 20 * 195 : 20] + tx.inputs[20 * 195 + i :: 20] for i in range(20)]
        split.append([Tx(some, [(SPENT, TRUE)]) for some in inputs])
    return base, split


OTHERS = {
    "long spent scripts and leaves, 20 transactions": many_copies,
    "most outputs": many_outputs,
    "10,000 bytes in each output": long_outputs,
}


MUTATED = "4,096 transactions repeated, refused"

# A build with debug assertions has both engines check each input, unless one is named.
ORDER = ["--method=order", "--script-engine=fast"]


def timed(command, may_fail=False):
    """Runs a program, and returns its CPU seconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0 and not may_fail:
        raise SystemExit(f"{command} failed with status {status}: {error.decode()}")
    return used.ru_utime + used.ru_stime


def reindexed(asked, data, base, tip):
    """Returns the CPU seconds that Apus takes for each block above `base`."""
    apus = [asked.apus, "reindex", "--regtest", f"--datadir={data}", *ORDER]
    used = [timed([*apus, "--assumevalid=0", f"--stopatheight={end}"]) for end in (base, tip)]
    return max(used[1] - used[0], 0.001) / (tip - base)


def bitcoind(asked, data):
    """Returns bitcoind's command line, without the checks of itself that it makes on regtest."""
    core = [asked.bitcoind, f"-datadir={data}", "-regtest", "-listen=0", "-connect=0", "-server=0"]
    return [*core, "-assumevalid=0", "-checkblockindex=0"]


def by_bitcoind(asked, data, base, tip):
    """Returns the CPU seconds that bitcoind takes for each block above `base`."""
    core = [*bitcoind(asked, data), "-reindex-chainstate"]
    used = [timed([*core, f"-stopatheight={end}"]) for end in (base, tip)]
    return max(used[1] - used[0], 0.001) / (tip - base)


def row(asked, name):
    """Makes the chain of a kind, and returns its row of the table."""
    shutil.rmtree(asked.dir, ignore_errors=True)
    data, path = os.path.join(asked.dir, "datadir"), os.path.join(asked.dir, "chain")
    os.makedirs(data)
    chain = Chain(path)
    if name in KINDS:
        kinds, *split = KINDS[name]
        base, built = spend(chain, kinds, asked.blocks, *split)
    else:
        base, built = OTHERS[name](chain, asked.blocks)
    for txs in built:
        chain.block(txs)
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


def mutated_row(asked):
    """Returns the row of a block whose last 4,096 of 12,288 transactions are repeated, which does
    not change its merkle root (CVE-2012-2459). It is put 20 times before the block itself."""
    shutil.rmtree(asked.dir, ignore_errors=True)
    os.makedirs(asked.dir)
    path, repeated = os.path.join(asked.dir, "chain"), os.path.join(asked.dir, "repeated")
    chain = Chain(path)
    _, (txs,) = spend(chain, [(TRUE, 12_287, b"", [])], 1, 12_287)
    start = chain.file.tell()
    chain.block(txs)
    chain.file.close()
    with open(path, "rb") as file:
        below, block = file.read(start), file.read()[8:]
    counts = [size(count) for count in (12_288, 12_288 + 4_096)]
    mutated = block[:80] + counts[1] + block[80 + len(counts[0]) :]
    mutated += b"".join(tx.bytes() for tx in txs[-4_096:])
    with open(repeated, "wb") as file:
        file.write(below + framed(mutated) * 20 + framed(block))
    used = []
    for program in range(2):
        for number, blocks in enumerate([path, repeated]):
            data = os.path.join(asked.dir, f"datadir{program}{number}")
            os.makedirs(data)
            apus = [asked.apus, "sync", "--regtest", f"--datadir={data}", "--from", blocks, *ORDER]
            load = [f"-loadblock={blocks}", f"-stopatheight={chain.height}"]
            command = [*bitcoind(asked, data), *load] if program == 0 else apus
            used.append(timed(command, may_fail=True))
    core, new = (max(used[at + 1] - used[at], 0.001) / 20 for at in (0, 2))
    shutil.rmtree(asked.dir)
    return f"| {MUTATED} | {core:.3f} | {new:.3f} | {core / new:.1f} | | |"


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
    for name in [*KINDS, *OTHERS, MUTATED]:
        if re.search(asked.only or "", name):
            rows.append(mutated_row(asked) if name == MUTATED else row(asked, name))
            print(rows[-1], flush=True)
    version = subprocess.run([asked.bitcoind, "-version"], capture_output=True, text=True).stdout
    print(version.splitlines()[0], flush=True)
    head = [version.splitlines()[0], "", "| block | bitcoind | Apus, new blocks | times | Apus, old blocks | times |"]
    head.append("|---|---|---|---|---|---|")
    if asked.out:
        with open(asked.out, "w") as out:
            out.write("\n".join(head + rows) + "\n")


if __name__ == "__main__":
    main()
