"""Apus: a verified UTXO set from Bitcoin blocks, and Bitcoin's chain as tables.

Functions do what the commands of the program ``apus`` do: :func:`sync`, :func:`reindex`,
:func:`status`, :func:`prove`, :func:`create_snapshot` and :func:`create_hints`. Their options are
keyword arguments with the names of the command line, with underscores for hyphens.

:class:`Chain` opens a data directory of Bitcoin Core or Apus: ``chain[840000]`` is a block, and
``chain.inputs(840000, 850000)`` a table that pyarrow, polars, pandas and DuckDB read.

Lines for the user, such as the method that a sync has chosen, go to the logger ``apus``.
"""

from . import _chain, _commands, _errors, _options, _progress, _results
from ._apus import Block, Coin, Header, Input, Output, Table, Transaction, __version__
from ._chain import *
from ._commands import *
from ._errors import *
from ._options import *
from ._progress import *
from ._results import *

__all__ = [
    "Block",
    "Coin",
    "Header",
    "Input",
    "Output",
    "Table",
    "Transaction",
    "__version__",
    *_chain.__all__,
    *_commands.__all__,
    *_errors.__all__,
    *_options.__all__,
    *_progress.__all__,
    *_results.__all__,
]
