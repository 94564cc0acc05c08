"""The arguments of the command line that are made of options."""

from __future__ import annotations

import difflib
import os
from typing import Iterable, List, Mapping

from ._options import SWITCHES

__all__ = ["arguments"]


def arguments(
    command: str, allowed: type, options: Mapping[str, object], caller: str = ""
) -> List[str]:
    """Returns the arguments of the command line for options. ``caller`` is what the user called, if
    it has another name than the command.

    >>> from apus import SyncOptions
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
            raise TypeError(f"{caller or command} has no option '{name}'{advice}")
        args += _of_option(name, value)
    return args


def _of_option(name: str, value: object) -> List[str]:
    option = "--" + name.rstrip("_").replace("_", "-")
    if value is None:
        return []
    if isinstance(value, bool):
        # False is said aloud where a settings file may have turned an option on.
        if name in SWITCHES:
            return [f"{option}={int(value)}"]
        return [option] if value else []
    if isinstance(value, (list, tuple)):
        return [arg for item in value for arg in _of_option(name, item)]
    if isinstance(value, (str, os.PathLike)):
        return [f"{option}={os.fsdecode(value)}"]
    if isinstance(value, (int, float)):
        return [f"{option}={value}"]
    raise TypeError(f"{name} must be text, a path, a number or a bool, not {type(value).__name__}")
