"""Progress: what a callback gets, and a bar."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Callable, Iterator, Optional, Tuple, Union

__all__ = ["Progress", "ProgressOption"]


@dataclass(frozen=True)
class Progress:
    """The state of the work at one moment."""

    phase: str
    """What is being done, in words."""
    height: int
    """The height of the tip, or of the last header."""
    time: int
    """The time of that block, in seconds since 1970; 0 if unknown."""
    blocks: int
    """Blocks that are done in this phase."""
    blocks_all: int
    """All blocks of this phase; 0 if they are done in order of height."""
    bytes: int
    """Bytes that are done in this phase."""
    coins: int
    """Coins in the cache."""
    fraction: float
    """The share of this phase that is done, from 0 to 1; 0 if unknown."""
    peers: Optional[int]
    """The number of peers; None without peers."""
    downloaded: Optional[int]
    """Bytes that were received from peers; None without peers."""
    run_fraction: Optional[float]
    """The share of the whole run's known work that is done; None while its stages are not known."""
    left: Optional[Tuple[float, float]]
    """The seconds that the whole run still takes: in eight cases of ten it ends between these two;
    None while that is not known, and while all work waits for peers."""
    left_words: Optional[str]
    """The same in words, such as ``12–15 min``."""


ProgressOption = Union[None, bool, Callable[[Progress], object]]
"""How progress is shown: not at all, by a bar (True; needs tqdm), or by a function of yours. The
function is called up to ten times a second, on the thread that waits for the work. An exception
that it raises stops the work, saves what is done, and goes on to the caller."""


@contextmanager
def reporter(progress: ProgressOption) -> Iterator[Optional[Callable[..., object]]]:
    """Makes the function that the work calls with the fields of its progress."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _tqdm()(total=100, bar_format=_FORMAT, leave=False) as bar:
            yield lambda **fields: _show(bar, Progress(**fields))
    else:
        tell = progress
        yield lambda **fields: tell(Progress(**fields))


_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}"


def _tqdm() -> Any:
    try:
        return import_module("tqdm.auto").tqdm
    except ImportError as error:
        what = "progress=True shows a bar of tqdm: pip install tqdm, or give a function"
        raise ImportError(what) from error


def _show(bar: Any, progress: Progress) -> None:
    whole = progress.run_fraction
    bar.n = 100 * (progress.fraction if whole is None else whole)
    bar.set_description_str(progress.phase, refresh=False)
    left = f"{progress.left_words} left, " if progress.left_words else ""
    bar.set_postfix_str(f"{left}height {progress.height:,}")
