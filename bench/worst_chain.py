"""Builds chains of regtest for `worst.py`, with any output scripts and with valid signatures."""

import hashlib
import struct

GENESIS = bytes.fromhex("06226e46111a0b59caaf126043eb5bbf28c34f3a5e332a1fc7b2b73cf188910f")
BITS = 0x207FFFFF
MAGIC = bytes.fromhex("fabfb5da")
COIN = 100_000_000
SPENT = 1000


def sha256(data):
    return hashlib.sha256(data).digest()


def sha256d(data):
    return sha256(sha256(data))


def hash160(data):
    return hashlib.new("ripemd160", sha256(data)).digest()


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


# secp256k1. The base point is the internal key of each taproot output that commits to a leaf.
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
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


def leaf_hash(script, version=0xC0):
    return tagged(b"TapLeaf", bytes([version]) + size(len(script)) + script)


def leaf(script, version=0xC0):
    """Returns the output script that commits to a leaf, and the control block."""
    internal = BASE[0].to_bytes(32, "big")
    root = leaf_hash(script, version)
    tweak = int.from_bytes(tagged(b"TapTweak", internal + root), "big")
    x, y = add(BASE, times(tweak, BASE))
    return b"\x51\x20" + x.to_bytes(32, "big"), bytes([version | y & 1]) + internal


# The nonce of all signatures.
NONCE = 0x5AFE
NONCE_POINT = times(NONCE, BASE)
NONCE_INVERSE = pow(NONCE, -1, ORDER)
# The secret keys are 1000, 1001 and so on.
FIRST_KEY = 1000
POINTS = [times(FIRST_KEY, BASE)]


def point(number):
    while len(POINTS) <= number:
        POINTS.append(add(POINTS[-1], BASE))
    return POINTS[number]


def public(number):
    """Returns a compressed key."""
    x, y = point(number)
    return bytes([2 | y & 1]) + x.to_bytes(32, "big")


def der(number):
    data = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return b"\x02" + bytes([len(data)]) + data


def ecdsa(number, message, kind=1):
    """Returns a signature by a key, in DER and with its type."""
    r = NONCE_POINT[0] % ORDER
    s = NONCE_INVERSE * (int.from_bytes(message, "big") + r * (FIRST_KEY + number)) % ORDER
    body = der(r) + der(min(s, ORDER - s))
    return b"\x30" + bytes([len(body)]) + body + bytes([kind])


def schnorr(number, message):
    """Returns a signature by a key (BIP340)."""
    x, y = point(number)
    secret = FIRST_KEY + number if y % 2 == 0 else ORDER - FIRST_KEY - number
    nonce = NONCE if NONCE_POINT[1] % 2 == 0 else ORDER - NONCE
    start = NONCE_POINT[0].to_bytes(32, "big")
    hashed = tagged(b"BIP0340/challenge", start + x.to_bytes(32, "big") + message)
    s = (nonce + int.from_bytes(hashed, "big") * secret) % ORDER
    return start + s.to_bytes(32, "big")


class Tx:
    """A transaction: inputs are (outpoint, scriptSig, witness), outputs (amount, script). What is
    signed spends SPENT."""

    def __init__(self, inputs, outputs, spent=(), numbers=()):
        self.inputs, self.outputs = inputs, outputs
        # What signatures need: the scripts that are spent, and the number of each output.
        self.spent, self.numbers = spent, numbers

    def bytes(self, witness=True):
        witness = witness and any(stack for _, _, stack in self.inputs)
        parts = [struct.pack("<i", 2), b"\x00\x01" if witness else b"", size(len(self.inputs))]
        for outpoint, script, _ in self.inputs:
            parts += [outpoint, size(len(script)), script, b"\xff" * 4]
        parts.append(self.outputs_bytes())
        if witness:
            for _, _, stack in self.inputs:
                parts += [size(len(stack))] + [size(len(item)) + item for item in stack]
        return b"".join(parts + [b"\x00" * 4])

    def outputs_bytes(self, count=True):
        parts = [struct.pack("<q", amount) + size(len(s)) + s for amount, s in self.outputs]
        return (size(len(parts)) if count else b"") + b"".join(parts)

    def txid(self):
        return sha256d(self.bytes(False))

    def sign(self):
        """Calls each scriptSig that is a function: it returns the scriptSig and the witness."""
        self.prevouts = b"".join(outpoint for outpoint, _, _ in self.inputs)
        self.sequences = b"\xff" * 4 * len(self.inputs)
        self.outs = self.outputs_bytes(False)
        self.start = hashlib.sha256(struct.pack("<i", 2) + size(len(self.inputs)))
        blank = b"".join(outpoint + b"\x00" + b"\xff" * 4 for outpoint, _, _ in self.inputs)
        self.blank = memoryview(blank)
        amounts = struct.pack("<q", SPENT) * len(self.inputs)
        scripts = b"".join(size(len(script)) + script for script in self.spent)
        parts = [self.prevouts, amounts, scripts, self.sequences, self.outs]
        self.once = [sha256(part) for part in parts]
        signed = []
        for index, (outpoint, script, witness) in enumerate(self.inputs):
            if callable(script):
                script, witness = script(self, index)
            signed.append((outpoint, script, witness))
            self.start.update(self.blank[41 * index : 41 * (index + 1)])
        self.inputs = signed

    def legacy(self, index, code, kind=1):
        """Returns the message of a legacy signature of an input: of SIGHASH_ALL or SIGHASH_NONE.
        The inputs have to ask in order."""
        outpoint = self.inputs[index][0]
        hashed = self.start.copy() if kind == 1 else hashlib.sha256(self.before_none(index))
        hashed.update(outpoint + size(len(code)) + code + b"\xff" * 4)
        if kind == 1:
            hashed.update(self.blank[41 * (index + 1) :])
            hashed.update(size(len(self.outputs)) + self.outs)
        else:
            blank = self.zeroed[41 * (index + 1) :]
            hashed.update(blank + b"\x00")
        hashed.update(struct.pack("<II", 0, kind))
        return sha256(hashed.digest())

    def before_none(self, index):
        """Returns the start of the message of SIGHASH_NONE, where all other sequences are 0."""
        if not hasattr(self, "zeroed"):
            zeroed = (outpoint + bytes(5) for outpoint, _, _ in self.inputs)
            self.zeroed = b"".join(zeroed)
        return struct.pack("<i", 2) + size(len(self.inputs)) + self.zeroed[: 41 * index]

    def v0(self, index, code):
        """Returns the message of a signature of version 0 (BIP143)."""
        prevouts, _, _, sequences, outs = (sha256(once) for once in self.once)
        parts = [struct.pack("<i", 2), prevouts, sequences, self.inputs[index][0]]
        parts += [size(len(code)), code, struct.pack("<q", SPENT), b"\xff" * 4, outs]
        return sha256d(b"".join(parts) + struct.pack("<II", 0, 1))

    def taproot(self, index, leaf_hash=None, annex=None):
        """Returns the message of a signature of a taproot input (BIP341, BIP342)."""
        kind = 2 * (leaf_hash is not None) + (annex is not None)
        parts = [bytes(2), struct.pack("<iI", 2, 0), *self.once, bytes([kind])]
        parts.append(struct.pack("<I", index))
        if annex:
            parts.append(sha256(size(len(annex)) + annex))
        if leaf_hash:
            parts += [leaf_hash, b"\x00" + b"\xff" * 4]
        return tagged(b"TapSighash", b"".join(parts))


def framed(block):
    return MAGIC + struct.pack("<I", len(block)) + block


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
        self.file.write(framed(raw))
