"""The options of commands, by their names on the command line, and the arguments made of them."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Iterable, List, Mapping, Sequence, TypedDict, Union

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
    """The settings file of Bitcoin Core's graphical interface."""
    nosettings: bool
    """Read no settings.json."""
    chain: Literal["main", "test", "testnet4", "signet", "regtest"]
    """The network. Default: main."""
    testnet: bool
    """Same as chain="test"."""
    testnet4: bool
    """Same as chain="testnet4"."""
    signet: bool
    """Same as chain="signet"."""
    regtest: bool
    """Same as chain="regtest"."""
    signetchallenge: str
    """The challenge script of a custom signet, in hex (BIP 325)."""
    par: int
    """Number of threads; 0: one for each core, -N: leave N cores free. Default: 0."""


class DirectoryOptions(ChainOptions, total=False):
    """The data directory and its network; the options of :func:`status`."""

    datadir: StrPath
    """The data directory. Default: the one that bitcoin.conf names, or Bitcoin Core's own."""


class ConnectOptions(DirectoryOptions, total=False):
    """How blocks are checked and connected."""

    stopatheight: int
    """Stop after connecting the block at this height; 0: never."""
    assumevalid: Union[str, int]
    """Take the scripts of this block and its ancestors as valid; 0: check every script. Default:
    the block built into Bitcoin Core."""
    minimumchainwork: str
    """The least work that the best chain must have before anything is assumed valid, in hex."""
    method: Literal["order", "join", "swiftsync"]
    """The method. Default: swiftsync with hints or a snapshot; else the faster of the others."""
    spilldir: StrPath
    """Put the temporary files of a join here."""
    hints: StrPath
    """SwiftSync with this hints file."""
    snapshot: StrPath
    """SwiftSync with this UTXO snapshot."""
    script_engine: Literal["core", "fast", "both"]
    """The engine that checks scripts."""
    dbcache: int
    """MiB for cached coins, at least 16. Default: 450."""


class SyncOptions(ConnectOptions, total=False):
    """The options of :func:`sync`."""

    connect: Union[str, int, Sequence[str]]
    """Connect only to these peers, HOST or HOST:PORT; 0: use no peers."""
    addnode: Union[str, Sequence[str]]
    """Connect to these peers in addition to others."""
    follow: bool
    """Do not end at the tip, but wait for new blocks, until Ctrl-C."""
    proxy: str
    """Connect through this SOCKS5 proxy."""
    onion: Union[str, int]
    """The proxy for onion services; 0: none."""
    maxdownload: Union[str, float, Sequence[str]]
    """The most MB a second, also by times of the day: "20@08:00-23:00"."""
    seednode: Union[str, Sequence[str]]
    """Ask these nodes for addresses of others."""
    dnsseed: bool
    """Ask DNS seeds for addresses."""
    fixedseeds: bool
    """Use the addresses that are built in, if no others are found."""
    lan: bool
    """Look for nodes on the local network, or announce this one."""
    maxconnections: int
    """The most connections."""
    onlynet: Union[str, Sequence[str]]
    """Connect only over these networks: ipv4, ipv6, onion."""
    listen: bool
    """With follow: serve blocks to others."""
    bind: Union[str, Sequence[str]]
    """With listen: the addresses to listen on. Default: all."""
    port: int
    """The port to listen on."""
    maxuploadtarget: Union[int, str]
    """The most MiB of blocks to send in a day."""
    peerblockfilters: bool
    """With listen: serve filters of blocks (BIP 157); needs blockfilterindex."""
    timeout: int
    """Milliseconds until an attempt to connect is given up."""
    witness: bool
    """Whether peers are asked for witnesses."""
    v2transport: bool
    """Whether connections are encrypted (BIP 324)."""
    txindex: bool
    """Build or continue the index of transactions by txid."""
    txospenderindex: bool
    """Build or continue the index of spenders by the outputs that they spend."""
    blockfilterindex: bool
    """Build or continue the index of block filters (BIP 158)."""
    coinstatsindex: bool
    """Build or continue the index of UTXO set statistics by height."""
    prune: int
    """Delete old blocks beyond this many MiB, at least 550; 0: keep all; 1: by `apus prune` alone."""
    allow_delete_blocks: bool
    """Let `prune` delete blocks of a directory that holds all of them."""
    checkblocks: int
    """Check this many blocks, from the tip down, before connecting any; 0: all. Default: 6."""
    checklevel: int
    """How thoroughly checkblocks checks, from 0 to 4. Default: 3."""


class ReindexOptions(ConnectOptions, total=False):
    """The options of :func:`reindex`."""

    index: bool
    """First rebuild the block index from the block files, if it is damaged or lost."""
    allow_shrink: bool
    """Replace the UTXO set even if the rebuilt one ends at a lower height."""


class ProveOptions(DirectoryOptions, total=False):
    """The options of :func:`prove`."""

    full: bool
    """Check every script and rule, too."""
    dbcache: int
    """MiB of memory for a snapshot's coins, at least 16. Default: 450."""


class SnapshotOptions(DirectoryOptions, total=False):
    """The options of :func:`create_snapshot`."""

    height: int
    """The height whose UTXO set is written. Default: the tip."""
    hints: StrPath
    """Take the outputs that this hints file names as unspent, for its height."""
    dbcache: int
    """MiB of memory for coins from undo data, at least 16. Default: 450."""


class HintsOptions(DirectoryOptions, total=False):
    """The options of :func:`create_hints`."""

    height: int
    """The height at which outputs count as unspent. Default: the tip."""
    snapshot: StrPath
    """Take the unspent outputs from this UTXO snapshot, for the height of its base block."""
    format: Literal["bip456", "booster", "bitset"]
    """The format of the file. Default: bip456."""
    force: bool
    """Replace the file if it exists."""
    dbcache: int
    """MiB of memory for sorting the unspent outputs, at least 16. Default: 450."""


# Options of which False is said aloud, since a settings file may have turned them on.
_SWITCHES = {
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


def arguments(command: str, allowed: type, options: Mapping[str, object]) -> List[str]:
    """Returns the arguments of the command line for options.

    >>> arguments("sync", SyncOptions, {"datadir": "d", "listen": False, "addnode": ["a", "b"]})
    ['sync', '--datadir=d', '--listen=0', '--addnode=a', '--addnode=b']
    >>> arguments("sync", SyncOptions, {"dbcach": 4000})
    Traceback (most recent call last):
    TypeError: sync has no option 'dbcach'; did you mean 'dbcache'?
    """
    names: Iterable[str] = allowed.__optional_keys__  # type: ignore[attr-defined]
    args = command.split()
    for name, value in options.items():
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            advice = f"; did you mean '{close[0]}'?" if close else ""
            raise TypeError(f"{command} has no option '{name}'{advice}")
        args += _of_option(name, value)
    return args


def _of_option(name: str, value: object) -> List[str]:
    option = "--" + name.rstrip("_").replace("_", "-")
    if value is None:
        return []
    if isinstance(value, bool):
        if name in _SWITCHES:
            return [f"{option}={int(value)}"]
        return [option] if value else []
    if isinstance(value, (list, tuple)):
        return [arg for item in value for arg in _of_option(name, item)]
    if isinstance(value, (str, os.PathLike)):
        return [f"{option}={os.fspath(value)}"]
    if isinstance(value, (int, float)):
        return [f"{option}={value}"]
    raise TypeError(f"{name} must be text, a path, a number or a bool, not {type(value).__name__}")
