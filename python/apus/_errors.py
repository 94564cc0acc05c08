"""Exceptions. Each class says who is to blame, and hence what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Sequence, Tuple, Type

__all__ = [
    "CoinDifference",
    "DiskFull",
    "Error",
    "HintsError",
    "InputError",
    "Locked",
    "RefusedWarning",
    "RuleError",
    "SnapshotError",
    "StoreError",
    "Unproved",
    "WrongOptions",
]


@dataclass(frozen=True)
class CoinDifference:
    """A coin that hints or a snapshot are wrong about."""

    txid: str
    vout: int
    height: Optional[int]
    """The height of the block that creates the coin; None if no block does."""
    kind: str
    """What is wrong, in one word."""
    text: str
    """The coin and what is wrong, in words."""


class Error(Exception):
    """What every error of Apus is. Work that was committed before an error remains valid."""

    differences: Sequence[CoinDifference] = ()
    """The first coins that hints or a snapshot are wrong about."""
    more_differences: bool = False
    """Whether there are more of these coins."""

    def __init__(self, message: str, **about: object) -> None:
        super().__init__(message)
        differences = about.pop("differences", None)
        if isinstance(differences, list):
            self.differences = tuple(CoinDifference(*coin) for coin in differences)
        for name, value in about.items():
            setattr(self, name, value)

    def __reduce__(self) -> Tuple[object, ...]:
        # Exceptions are sent to other processes whole: OSError keeps errno and filename elsewhere.
        about = dict(self.__dict__)
        for name in ("errno", "filename"):
            if getattr(self, name, None) is not None:
                about[name] = getattr(self, name)
        return _made_again, (type(self), str(self.args[0]), about)


def _made_again(kind: Type[Error], message: str, about: Dict[str, object]) -> Error:
    error = kind(message)
    for name, value in about.items():
        setattr(error, name, value)
    return error


class StoreError(Error, OSError):
    """The disk: a file cannot be read or written, or holds bytes that cannot be right."""

    path: Optional[str] = None
    """The file or directory."""
    offset: Optional[int] = None
    """The offset in the file, in bytes, if the error has one."""

    def __init__(self, message: str, **about: object) -> None:
        super().__init__(message, **about)
        self.filename = self.path

    def __str__(self) -> str:
        return str(self.args[0])


class DiskFull(StoreError):
    """The disk has no space left. Make room and run the same again: what was saved is used."""


class Locked(Error):
    """Another program, such as bitcoind, has the directory open. Stop it first."""

    path: Optional[str] = None
    """The directory or its lock file."""


class RuleError(Error):
    """A block: it breaks a rule, and nothing was committed."""

    block: Optional[str] = None
    """The hash of the block."""
    reason: str = ""
    """Bitcoin Core's reject reason, with details."""
    path: Optional[str] = None
    """The file that the block is in."""
    offset: Optional[int] = None
    """The offset of the block in the file, in bytes."""


class HintsError(Error):
    """A hints file: it is wrong, or is not for these blocks."""

    path: Optional[str] = None
    """The hints file."""


class SnapshotError(Error):
    """A UTXO snapshot: it is wrong, or differs from the coins that these blocks leave."""

    path: Optional[str] = None
    """The snapshot."""


class InputError(Error, ValueError):
    """The directory or the files given, with which the work cannot be done."""


class WrongOptions(InputError):
    """The arguments: they are wrong, or contradict each other. A message names options as the
    command line does: ``--dbcache`` is the argument ``dbcache``."""


class Unproved(Error):
    """The chain, which SwiftSync cannot prove. Nothing was committed."""


class Interrupted(Error):
    """The work was stopped. Callers get the exception that stopped it."""


class RefusedWarning(UserWarning):
    """A sync is done, but has refused blocks, or parts of files. ``Summary.refused`` has them."""
