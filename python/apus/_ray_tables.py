"""Tables on a Ray cluster: :func:`read` as a dataset, :func:`export` as Parquet files."""

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from ._chain import Chain, names_of
from ._errors import Error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ChainOptions, StrPath

__all__ = ["export", "read"]


def error_in(text: str) -> str:
    """Returns what a program says is wrong, without the times and the other lines of its log.

    >>> error_in("2026-11-27T00:16:42Z Warning: x\\n2026-11-27T00:16:42Z Error: no job\\n")
    'no job'
    """
    lines = [re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", "", line) for line in text.splitlines()]
    errors = [line[len("Error: ") :] for line in lines if line.startswith("Error: ")]
    return "\n".join(errors or lines).strip()


def import_ray() -> Any:
    """Returns the module ``ray``, or says what to install."""
    try:
        return import_module("ray")
    except ImportError as error:
        what = "apus.ray needs Ray: pip install 'ray[data,default]>=2.40'"
        raise ImportError(what) from error


def read(
    datadir: StrPath,
    table: str,
    start: Optional[int] = None,
    stop: Optional[int] = None,
    *,
    columns: Optional[Sequence[str]] = None,
    blocks: int = 1_000,
    **options: Unpack[ChainOptions],
) -> Any:
    """Returns a table of the blocks in ``range(start, stop)`` as a ``ray.data.Dataset``: blocks,
    transactions, inputs or outputs.

    ``datadir`` is a path that all machines see; each needs this package and pyarrow. ``blocks`` is
    the number of blocks that a task reads.

    >>> read("/shared/node", "inputs", 800_000, 810_000).count()  # doctest: +SKIP
    """
    if table not in ("blocks", "transactions", "inputs", "outputs"):
        raise ValueError(f"there is no table {table} by height")
    place, names = os.path.abspath(os.fsdecode(datadir)), names_of(columns)
    import_ray()
    data = import_module("ray.data")
    with Chain(place, **options) as chain:
        first, last, _ = slice(start, stop).indices(len(chain))
        if first >= last:
            none = getattr(chain, table)(first, first, columns=names)
            return data.from_arrow(import_module("pyarrow").table(none))

    def rows(batch: Any) -> Any:
        pyarrow = import_module("pyarrow")
        with Chain(place, **options) as chain:
            parts = [
                pyarrow.table(getattr(chain, table)(start, stop, columns=names))
                for start, stop in zip(batch["start"].to_pylist(), batch["stop"].to_pylist())
            ]
        return pyarrow.concat_tables(parts)

    ranges = [{"start": at, "stop": min(at + blocks, last)} for at in range(first, last, blocks)]
    dataset = data.from_items(ranges, override_num_blocks=len(ranges))
    return dataset.map_batches(rows, batch_size=1, batch_format="pyarrow")


def export(
    datadir: StrPath,
    table: str,
    output: StrPath,
    *,
    program: StrPath = "apus",
    blocks: int = 10_000,
    options: Sequence[str] = (),
    max_retries: int = 3,
    progress: Optional[Callable[[int, int], object]] = None,
) -> int:
    """Writes a table as one Parquet file for each range of heights, as ``apus shard export`` does,
    on the machines of a Ray cluster. Returns the number of files that were written: those that are
    right already are kept.

    ``program`` is ``apus`` on all machines, built with the feature ``export``; ``datadir`` and
    ``output`` are paths that all of them see. ``options`` are more of its options, such as
    ``["--regtest", "--txid=raw"]``. ``progress`` is called with the files done and all of them.

    >>> export("/shared/node", "outputs", "/shared/tables", progress=print)  # doctest: +SKIP
    """
    ray = import_ray()
    paths = [f"--datadir={os.path.abspath(os.fsdecode(datadir))}"]
    paths.append(f"--output={os.path.abspath(os.fsdecode(output))}")
    command: List[str] = [os.fsdecode(program), "shard", "export", table, *paths, *options]
    command.append(f"--blocks={blocks}")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)

    def write(number: str) -> str:
        import subprocess

        ran = subprocess.run(
            [*command, f"--range={number}", "--par=1", "--quiet"], capture_output=True, text=True
        )
        return ran.stderr.strip() or "failed" if ran.returncode else ""

    ran = subprocess.run([*command, "--todo"], capture_output=True, text=True)
    if ran.returncode:
        raise Error(error_in(ran.stderr))
    queue, done = deque(ran.stdout.split()), 0
    count, running = len(queue), {}  # type: int, Dict[Any, str]
    remote = ray.remote(write)
    while queue or running:
        while queue and len(running) < max(2 * ray.cluster_resources().get("CPU", 0), 16):
            number = queue.popleft()
            name = f"apus export {table} {number}"
            running[remote.options(name=name, max_retries=max_retries).remote(number)] = number
        for ref in ray.wait(list(running), timeout=1)[0]:
            number, failure = running.pop(ref), ray.get(ref)
            if failure:
                raise Error(f"{table} {number}: {error_in(failure)}")
            done += 1
            if progress is not None:
                progress(done, count)
    return count
