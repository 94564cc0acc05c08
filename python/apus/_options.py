"""The options of commands, by their names on the command line.

A test of the program writes this file: APUS_WRITE_OPTIONS=1 cargo test -p apus --lib python_options
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Sequence, TypedDict, Union

if TYPE_CHECKING:
    from typing import Literal

__all__ = [
    "ChainOptions",
    "ConnectOptions",
    "DirectoryOptions",
    "HintsOptions",
    "ProveOptions",
    "ReindexOptions",
    "SnapshotOptions",
    "SyncOptions",
]

StrPath = Union[str, "os.PathLike[str]"]
Value = Union[str, float]


class ChainOptions(TypedDict, total=False):
    """The options of :class:`Chain`. Settings of bitcoin.conf and settings.json apply as on the
    command line."""

    blocksdir: StrPath
    """The directory whose blocks/ holds the blk and rev files, if not the data directory."""
    conf: StrPath
    """Bitcoin Core's configuration file. Default: bitcoin.conf in the data directory."""
    noconf: bool
    """Read no bitcoin.conf."""
    noincludeconf: bool
    """Read no file that bitcoin.conf includes."""
    allowignoredconf: bool
    """Ignore a second bitcoin.conf, in the data directory that the first one names."""
    settings: StrPath
    """The settings file that Bitcoin Core's graphical interface writes. Default: settings.json
    in the network's directory."""
    nosettings: bool
    """Read no settings.json."""
    chain: Literal["main", "test", "testnet4", "signet", "regtest"]
    """The network: main, test, testnet4, signet or regtest. Default: main."""
    testnet: bool
    """Same as `chain=test`."""
    testnet4: bool
    """Same as `chain=testnet4`."""
    signet: bool
    """Same as `chain=signet`."""
    regtest: bool
    """Same as `chain=regtest`."""
    signetchallenge: Value
    """The challenge script of a custom signet, in hex (BIP325)."""
    par: int
    """Number of threads; 0: one for each core, -N: leave N cores free. Default: 0."""


class DirectoryOptions(ChainOptions, total=False):
    """The data directory and its network; the options of :func:`status`."""

    datadir: StrPath
    """The data directory. Default: the one that bitcoin.conf names, or Bitcoin Core's own."""


class ConnectOptions(DirectoryOptions, total=False):
    """How blocks are checked and connected."""

    stopatheight: int
    """Stop after connecting the block at this height; 0: never. Default: 0."""
    assumevalid: Value
    """Take the scripts of this block and its ancestors as valid; 0: check every script.
    Default: the block built into Bitcoin Core v31."""
    minimumchainwork: Value
    """The least work that the best chain of headers must have before anything is assumed valid,
    in hex. Default: the value built into Bitcoin Core v31."""
    method: Literal["order", "join", "swiftsync"]
    """The method of syncing. Default: swiftsync with `hints` or `snapshot`; else join or order,
    whichever is faster."""
    spilldir: StrPath
    """Put the temporary files of a join here; they are removed at the end. Default: next to the
    chainstate."""
    hints: StrPath
    """SwiftSync with this hints file: all cores process the blocks up to the hints' height in
    any order, without look-ups, and one comparison of sums proves the result."""
    hints_sha256: Value
    """The SHA-256 of the hints file that a peer shall send (`hints=peer`), in hex, as
    `sha256sum` prints it."""
    snapshot: StrPath
    """SwiftSync with this UTXO snapshot instead of hints, up to its base block."""
    script_engine: Literal["core", "fast", "both"]
    """The engine that checks the scripts that are not assumed valid."""
    dbcache: int
    """MiB for cached coins, at least 16; more means fewer look-ups on disk. Default: a quarter
    of the free memory, from 16 to 450."""


class SyncOptions(ConnectOptions, total=False):
    """The options of :func:`sync`."""

    prune: int
    """Delete old blocks, so that block and undo files take at most this many MiB, at least 550.
    0: keep all blocks; 1: delete only with `apus prune`. Default: 0."""
    allow_delete_blocks: bool
    """Let `prune` delete blocks of a directory that holds all of them, as that of a node which
    was never pruned does. Without it, a terminal asks."""
    reconsider: bool
    """First forget which blocks the directory calls invalid, and check them again (Core's
    reconsiderblock, for a directory at rest)."""
    checkblocks: int
    """Check this many blocks, from the tip down, against the UTXO set before connecting any
    block, as bitcoind does at startup; 0: all. Default: 6."""
    checklevel: int
    """How thoroughly `checkblocks` checks, from 0 to 4; `apus verify --help` describes the
    levels. Default: 3."""
    txindex: bool
    """Build or continue bitcoind's index of transactions, and with `follow` keep it at the tip;
    `apus index --help` says more about indexes. Default: 0."""
    txospenderindex: bool
    """The same for the index of the transactions that spend outputs. Default: 0."""
    blockfilterindex: bool
    """The same for the index of basic filters; `basic` is another word for 1. Default: 0."""
    coinstatsindex: bool
    """The same for the index of statistics of the UTXO set. Default: 0."""
    connect: Union[Value, Sequence[Value]]
    """Connect only to this peer, HOST or HOST:PORT; may be a list. 0: use no peers, only stored
    blocks and files."""
    addnode: Union[Value, Sequence[Value]]
    """Connect to this peer in addition to others; may be a list."""
    follow: bool
    """Do not end at the tip, but follow new blocks and reorganisations until interrupted."""
    proxy: Union[Value, Sequence[Value]]
    """Connect through this SOCKS5 proxy, HOST, HOST:PORT or unix:PATH, such as Tor's
    127.0.0.1:9050. Names are resolved by the proxy. With =ipv4, =ipv6 or =onion behind it only
    for that network; may be a list."""
    onion: Value
    """Connect to onion services through this SOCKS5 proxy, HOST, HOST:PORT or unix:PATH; 0:
    never connect to onion services. Default: that of `proxy`."""
    maxdownload: Union[Value, Sequence[Value]]
    """Download at most this many MB (10^6 bytes) per second. Default: no limit."""
    seednode: Union[Value, Sequence[Value]]
    """Ask this node for addresses of peers if too few are known; may be a list."""
    dnsseed: bool
    """Query DNS seeds for addresses of peers if too few are known. Default: 1."""
    fixedseeds: bool
    """Connect to addresses that Apus comes with, if neither the address book nor DNS seeds have
    any. Default: 1."""
    lan: bool
    """Look for nodes on the local network, for two seconds at the start, and use them in
    addition to other peers; 0: do not look. Default: 1; 0 with `connect`, `proxy`, `onion` or
    `onlynet`. Given with `listen`, announce this node there, too."""
    maxconnections: int
    """Maximum number of connections; Apus itself opens at most 10 of them. Default: 125."""
    onlynet: Union[Literal["ipv4", "ipv6", "onion"], Sequence[Literal["ipv4", "ipv6", "onion"]]]
    """Connect only to hosts of this network, except those named with `connect` or `addnode`;
    may be a list. Without ipv4 and ipv6, no DNS seed is queried."""
    listen: bool
    """Accept connections from peers, and serve headers and blocks to all peers, as `apus serve`
    does. Default: 0, unlike Bitcoin Core."""
    bind: Union[Value, Sequence[Value]]
    """With `listen`, take connections at this address of this machine alone, ADDR or ADDR:PORT
    ([ADDR]:PORT for IPv6); may be a list. Default: all addresses."""
    port: int
    """Listen on this port. Default: the network's, 8333 on mainnet."""
    maxuploadtarget: Value
    """Send at most this many MiB of blocks in 24 hours with `listen`, as for `apus serve`. 0:
    no limit. Default: 0."""
    peerblockfilters: bool
    """With `listen`, serve filters of blocks to light wallets (BIP157); needs
    `blockfilterindex`. Default: 0."""
    timeout: int
    """Give up opening a connection after this many milliseconds; 0: the default. Default: 5000."""
    witness: bool
    """0: download without witnesses the blocks that SwiftSync does not store. Fewer bytes are
    downloaded, and witness commitments and block weights are not checked. Default: 1."""
    v2transport: bool
    """Try the encrypted transport first (BIP324). Default: 1."""


class ReindexOptions(ConnectOptions, total=False):
    """The options of :func:`reindex`."""

    index: bool
    """First rebuild the block index from the block files, if it is damaged or lost (Core's
    -reindex). Needs all block files; undo data is written again."""
    allow_shrink: bool
    """Replace the UTXO set even if the rebuilt one ends at a lower height; `stopatheight`
    allows that, too."""


class ProveOptions(DirectoryOptions, total=False):
    """The options of :func:`prove`."""

    full: bool
    """Check every script and rule, too. The spent coins come from the rev files next to the
    blocks; if some are missing, a join of the blocks finds them, with temporary files in TMPDIR
    that usually take 0.3 to 0.5 times as many bytes as the blocks."""
    dbcache: int
    """MiB of memory for a snapshot's coins, at least 16; they take about as much as the file.
    If a quarter of the free memory is more, that is used. What does not fit goes to temporary
    files. Default: a quarter of the free memory."""


class SnapshotOptions(DirectoryOptions, total=False):
    """The options of :func:`create_snapshot`."""

    height: int
    """The height whose UTXO set is written. Default: the directory's tip."""
    hints: StrPath
    """Take the outputs that this hints file names as unspent, for its height. Only the blocks
    of the directory are used, and no undo data is needed. `apus prove` proves the result."""
    dbcache: int
    """MiB of memory for coins from undo data, at least 16; what does not fit goes to a
    temporary file. Default: a quarter of the free memory, from 16 to 450."""


class HintsOptions(DirectoryOptions, total=False):
    """The options of :func:`create_hints`."""

    height: int
    """The height at which outputs count as unspent. Default: the directory's tip."""
    snapshot: StrPath
    """Take the unspent outputs from this UTXO snapshot, for the height of its base block. Only
    the blocks of the directory are used, and no undo data is needed."""
    format: Literal["bip456", "hintsfile-0.2", "hintsfile-0.1", "btcd", "booster", "bitset"]
    """The format of the file to write. Default: bip456."""
    force: bool
    """Replace the file if it exists."""
    dbcache: int
    """MiB of memory for sorting the unspent outputs, at least 16; what does not fit goes to a
    temporary file. The report names the peak memory of the whole run. Default: a quarter of the
    free memory, from 16 to 450."""


# Options of which False is said aloud: a settings file may have turned them on.
SWITCHES = {
    "blockfilterindex",
    "coinstatsindex",
    "dnsseed",
    "fixedseeds",
    "lan",
    "listen",
    "peerblockfilters",
    "regtest",
    "signet",
    "testnet",
    "testnet4",
    "txindex",
    "txospenderindex",
    "v2transport",
    "witness",
}
