"""Commands of the program ``apus`` as functions."""

from __future__ import annotations

import json
import logging
import os
import warnings
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Union

from . import _apus
from ._arguments import arguments
from ._errors import RefusedWarning
from ._options import (
    DirectoryOptions,
    HintsOptions,
    ProveOptions,
    ReindexOptions,
    SnapshotOptions,
    StrPath,
    SyncOptions,
)
from ._progress import ProgressOption, reporter
from ._results import HintsSummary, SnapshotSummary, Status, Summary, from_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["create_hints", "create_snapshot", "prove", "reindex", "status", "sync"]

Sources = Union[StrPath, Sequence[StrPath]]

_LOG = logging.getLogger("apus")


def note(text: str) -> None:
    """Logs a line for the user, such as the method that was chosen."""
    prefix = "Warning: "
    if text.startswith(prefix):
        _LOG.warning("%s", text[len(prefix) :])
    else:
        _LOG.info("%s", text)


def sync(
    from_: Sources = (), *, progress: ProgressOption = None, **options: Unpack[SyncOptions]
) -> Summary:
    """Checks blocks from peers or from files, and connects them, as ``apus sync`` does.

    ``from_`` names files of blocks (bootstrap.dat, blk*.dat) and Bitcoin Core data or blocks
    directories, as ``--from`` does; without it, blocks are downloaded from peers.
    :class:`SyncOptions` lists the options.

    A sync continues from what the directory holds. Ctrl-C saves what is done, and raises
    KeyboardInterrupt; the same call then goes on. Blocks that break a rule are refused, with a
    :class:`RefusedWarning`, and the best valid chain wins.

    >>> summary = sync(blocks, datadir=new, chain="regtest")
    >>> summary.height, summary.coins, summary.method
    (206, 230, 'order')
    """
    args = arguments("sync", SyncOptions, options) + _sources(from_)
    summary = from_json(Summary, _run(args, progress))
    _warn_of_refusals(summary)
    return summary


def reindex(*, progress: ProgressOption = None, **options: Unpack[ReindexOptions]) -> Summary:
    """Rebuilds the UTXO set from the stored blocks, as ``apus reindex`` does.

    The old UTXO set stays in place until the new one is complete. Ctrl-C saves what is done.

    >>> reindex(datadir=synced, chain="regtest", assumevalid=0).height
    206
    """
    args = arguments("reindex", ReindexOptions, options)
    summary = from_json(Summary, _run(args, progress))
    _warn_of_refusals(summary)
    return summary


def status(**options: Unpack[DirectoryOptions]) -> Status:
    """Reads the state of a data directory, which is not changed.

    >>> state = status(datadir=synced, chain="regtest")
    >>> state.height, state.pruned, state.unfinished
    (206, False, ())
    """
    return from_json(Status, _run(arguments("status", DirectoryOptions, options), None))


def prove(
    file: StrPath,
    from_: Sources = (),
    *,
    progress: ProgressOption = None,
    **options: Unpack[ProveOptions],
) -> Summary:
    """Proves that a hints file or a UTXO snapshot is right, by the blocks of the directory, or by
    those of ``from_``. Nothing is kept on disk.

    Raises :class:`HintsError` or :class:`SnapshotError`, with the coins that differ, if it is
    wrong, and :class:`RuleError` if a block breaks a rule.

    >>> prove(hints, datadir=synced, chain="regtest").coins
    230
    """
    args = arguments("prove", ProveOptions, options) + _sources(from_)
    return from_json(Summary, _run([*args, "--", os.fsdecode(file)], progress))


def create_snapshot(
    output: StrPath, *, progress: ProgressOption = None, **options: Unpack[SnapshotOptions]
) -> SnapshotSummary:
    """Writes the UTXO set to a file, as Bitcoin Core's dumptxoutset does. The file must not exist.

    >>> create_snapshot(new / "utxo.dat", datadir=synced, chain="regtest").coins_written
    230
    """
    args = arguments("snapshot create", SnapshotOptions, options) + [
        f"--output={os.fsdecode(output)}"
    ]
    return from_json(SnapshotSummary, _run(args, progress))


def create_hints(
    output: StrPath, *, progress: ProgressOption = None, **options: Unpack[HintsOptions]
) -> HintsSummary:
    """Writes which outputs are unspent to a hints file, with which a SwiftSync takes blocks in any
    order.

    >>> create_hints(new / "regtest.hints", datadir=synced, chain="regtest").unspent
    230
    """
    args = arguments("hints create", HintsOptions, options) + [f"--output={os.fsdecode(output)}"]
    return from_json(HintsSummary, _run(args, progress))


def _sources(paths: Sources) -> List[str]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    return [f"--from={os.fsdecode(path)}" for path in paths]


def _run(args: List[str], progress: ProgressOption) -> Mapping[str, Any]:
    with reporter(progress) as report:
        result: Dict[str, Any] = json.loads(_apus.run(args, note, report))
    return result


def _warn_of_refusals(summary: Summary) -> None:
    if summary.refused:
        first, more = summary.refused[0], len(summary.refused) - 1
        what = f"refused: {first.block or first.file}: {first.reason}"
        what += f", and {more} more" if more else ""
        warnings.warn(what, RefusedWarning, stacklevel=3)
