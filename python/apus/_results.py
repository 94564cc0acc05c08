"""The results of commands. Their fields are those of ``--json`` on the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Dict, Mapping, Optional, Sequence, Type, TypeVar

__all__ = [
    "AboveTip",
    "Checked",
    "HintsSummary",
    "JoinSaved",
    "NotChecked",
    "Peer",
    "Pruned",
    "Refusal",
    "ScriptChecks",
    "ScriptDifference",
    "SecondSet",
    "SnapshotSummary",
    "Status",
    "Summary",
    "SwiftSyncSaved",
    "Unfinished",
    "Waits",
]

T = TypeVar("T")


def from_json(kind: Type[T], json: Mapping[str, Any]) -> T:
    """Returns a result from the object of ``--json``."""
    values: Dict[str, Any] = {}
    for its in fields(kind):  # type: ignore[arg-type]
        # The field of a name that Python reserves ends in an underscore.
        value = json[its.name.rstrip("_")]
        part = getattr(kind, "_parts", {}).get(its.name)
        if isinstance(value, list):
            value = tuple(from_json(part, item) if part else item for item in value)
        elif part and value is not None:
            value = from_json(part, value)
        values[its.name] = value
    return kind(**values)


@dataclass(frozen=True)
class AboveTip:
    """The blocks between the tip and the best header."""

    headers: int
    """The height of the best header."""
    blocks_waiting: int
    blocks_missing: int
    first_missing: Optional[int]
    """The height of the first block that is missing."""


@dataclass(frozen=True)
class ScriptChecks:
    """The number of inputs that each engine has checked."""

    fast: int
    core: int
    rechecked: int
    """Those that both engines have checked."""
    signatures: int
    """Signatures that were verified together."""
    kernel: Optional[str]
    """The code that verified them."""


@dataclass(frozen=True)
class ScriptDifference:
    """An input about which the engines disagree: Bitcoin Core's engine alone checks scripts."""

    file: str
    unsaved: Optional[str]
    """The file's content, if it could not be written."""


@dataclass(frozen=True)
class SwiftSyncSaved:
    """How far an interrupted SwiftSync came, in blocks."""

    blocks: int
    of: int


@dataclass(frozen=True)
class JoinSaved:
    """How far an interrupted join came: the pass, from 1 to 3, and numbers of blocks."""

    # "pass" is a word of Python's.
    pass_: int
    blocks_read: int
    blocks_checked: int
    total: int


@dataclass(frozen=True)
class NotChecked:
    """Rules that were not checked in a range of heights."""

    first_height: int
    last_height: int
    rules: Sequence[str]


@dataclass(frozen=True)
class Checked:
    """What was checked: everything, or all but some rules."""

    everything: bool
    not_checked: Sequence[NotChecked]
    _parts: ClassVar[Mapping[str, type]] = {"not_checked": NotChecked}


@dataclass(frozen=True)
class Pruned:
    """The pruned blocks, in heights and bytes."""

    blocks_from: int
    freed_bytes: int
    size_on_disk: int
    held_at: Optional[int]


@dataclass(frozen=True)
class Refusal:
    """A block, or a part of a file, that was refused."""

    file: Optional[str]
    offset: Optional[int]
    block: Optional[str]
    reason: str


@dataclass(frozen=True)
class Waits:
    """What the thread that connects blocks in order waited for, in seconds."""

    connecting: float
    blocks: float
    peers: float
    checks: float
    commits: float
    blocks_ready: float
    blocks_in_checks: float
    stalls: Sequence[int]
    longest_stall: float


@dataclass(frozen=True)
class Peer:
    """What one peer sent."""

    address: str
    user_agent: str
    transport: str
    inbound: bool
    blocks: int
    bytes: int
    bytes_per_second: Optional[int]
    ended: Optional[str]


@dataclass(frozen=True)
class Summary:
    """The result of a sync, a reindex or a proof. Times are in seconds, sizes in bytes."""

    height: int
    bestblock: str
    coins: Optional[int]
    """The number of coins in the UTXO set."""
    method: Optional[str]
    why: Optional[str]
    """The reason for the method."""
    above_tip: Optional[AboveTip]
    blocks_disconnected: int
    spilled_bytes: Optional[int]
    seconds: float
    cpu_seconds: float
    blocks: int
    bytes: int
    transactions: int
    inputs: int
    scripts_checked: int
    script_checks: ScriptChecks
    script_difference: Optional[ScriptDifference]
    peak_memory: int
    peak_memory_mapped: Optional[int]
    interrupted: bool
    swiftsync_saved: Optional[SwiftSyncSaved]
    join_saved: Optional[JoinSaved]
    checked: Checked
    undo_from: int
    """The height from which undo data is stored."""
    pruned: Optional[Pruned]
    refused: Sequence[Refusal]
    repaired: Sequence[Refusal]
    """Damaged copies of stored blocks that were replaced."""
    stages: Mapping[str, float]
    waits: Waits
    waited_for_peers: float
    coins_looked_up: int
    bottleneck: Optional[str]
    waits_for_disk: bool
    disk_wait_percent: Optional[int]
    peers: Sequence[Peer]
    _parts: ClassVar[Mapping[str, type]] = {
        "above_tip": AboveTip,
        "script_checks": ScriptChecks,
        "script_difference": ScriptDifference,
        "swiftsync_saved": SwiftSyncSaved,
        "join_saved": JoinSaved,
        "checked": Checked,
        "pruned": Pruned,
        "refused": Refusal,
        "repaired": Refusal,
        "waits": Waits,
        "peers": Peer,
    }


@dataclass(frozen=True)
class Unfinished:
    """Unfinished work in a directory, and how to finish it."""

    what: str
    """The method: reindex, swiftsync or join."""
    height: Optional[int]
    blocks: Optional[int]
    join: Optional[JoinSaved]
    remedy: str
    _parts: ClassVar[Mapping[str, type]] = {"join": JoinSaved}


@dataclass(frozen=True)
class SecondSet:
    """A second UTXO set, with which bitcoind works since it has loaded a snapshot."""

    base_hash: str
    base_height: Optional[int]
    height: Optional[int]


@dataclass(frozen=True)
class Index:
    """One of Bitcoin Core's optional indexes; txindex once for each form of its entries."""

    name: str
    height: Optional[int]
    """The height of its last block, if it has one that is known."""
    form: Optional[int]
    """For txindex, the version of Bitcoin Core that writes such entries: 31 or 32."""
    error: Optional[str]
    """Why it cannot be read."""


@dataclass(frozen=True)
class Status:
    """The state of a directory."""

    datadir: str
    chain: str
    height: int
    headers: int
    bestblock: str
    time: int
    """The time of the best block, in seconds since 1970."""
    coins: Optional[int]
    above_tip: AboveTip
    pruned: bool
    blocks_from: int
    undo_from: int
    indexes: Sequence[Index]
    unfinished: Sequence[Unfinished]
    snapshot: Optional[SecondSet]
    unused: Sequence[str]
    """Files of unfinished work that is used no more."""
    _parts: ClassVar[Mapping[str, type]] = {
        "above_tip": AboveTip,
        "indexes": Index,
        "unfinished": Unfinished,
        "snapshot": SecondSet,
    }


@dataclass(frozen=True)
class SnapshotSummary:
    """A UTXO snapshot that was made."""

    coins_written: int
    base_hash: str
    base_height: int
    path: str
    bytes: int
    seconds: float
    interrupted: bool


@dataclass(frozen=True)
class HintsSummary:
    """A hints file that was made."""

    file: str
    format: str
    height: int
    bestblock: Optional[str]
    blocks: int
    outputs: Optional[int]
    unspent: int
    bytes: int
    seconds: float
    peak_memory: int
    peak_memory_mapped: Optional[int]
    interrupted: bool
