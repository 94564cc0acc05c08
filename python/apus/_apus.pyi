"""The part of the package that is in Rust."""

from typing import Any, Callable, List, Optional, Sequence, Tuple, final

__all__ = [
    "Block",
    "Coin",
    "Header",
    "Input",
    "Output",
    "Reader",
    "Table",
    "Transaction",
    "__version__",
    "run",
]
__version__: str

def run(
    args: Sequence[str],
    note: Callable[[str], object],
    report: Optional[Callable[..., object]],
) -> str: ...

@final
class Header:
    """The header of a block."""

    @property
    def version(self) -> int:
        """The version, which holds the bits of BIP 9."""

    @property
    def previous(self) -> str:
        """The hash of the block below."""

    @property
    def merkle_root(self) -> str: ...
    @property
    def time(self) -> int:
        """Seconds since 1970, UTC."""

    @property
    def bits(self) -> int:
        """The target in compact form."""

    @property
    def nonce(self) -> int: ...

@final
class Block:
    """A block of the active chain. ``len(block)`` is the number of its transactions."""

    @property
    def height(self) -> int: ...
    @property
    def hash(self) -> str: ...
    @property
    def header(self) -> Header: ...
    @property
    def raw(self) -> bytes:
        """The block as it is serialised, with witnesses."""

    @property
    def transactions(self) -> Tuple[Transaction, ...]:
        """The transactions, parsed when they are first asked for."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...

@final
class Transaction:
    """A transaction."""

    @property
    def txid(self) -> str: ...
    @property
    def wtxid(self) -> str: ...
    @property
    def coinbase(self) -> bool: ...
    @property
    def version(self) -> int: ...
    @property
    def locktime(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def vsize(self) -> int: ...
    @property
    def inputs(self) -> Tuple[Input, ...]: ...
    @property
    def outputs(self) -> Tuple[Output, ...]: ...
    @property
    def raw(self) -> bytes: ...

@final
class Input:
    """An input of a transaction. That of a coinbase spends nothing."""

    @property
    def prev_txid(self) -> Optional[str]: ...
    @property
    def prev_vout(self) -> Optional[int]: ...
    @property
    def sequence(self) -> int: ...
    @property
    def scriptsig(self) -> bytes: ...
    @property
    def witness(self) -> Tuple[bytes, ...]: ...

@final
class Output:
    """An output of a transaction."""

    @property
    def value(self) -> int:
        """The amount, in satoshi."""

    @property
    def type(self) -> str:
        """The kind of the script, as in the table of outputs."""

    @property
    def scriptpubkey(self) -> bytes: ...

@final
class Coin:
    """An output, and the block that created it."""

    @property
    def value(self) -> int:
        """The amount, in satoshi."""

    @property
    def type(self) -> str:
        """The kind of the script, as in the table of outputs."""

    @property
    def scriptpubkey(self) -> bytes: ...
    @property
    def height(self) -> int: ...
    @property
    def coinbase(self) -> bool: ...

@final
class Table:
    """A table of a chain. pyarrow, polars, pandas and DuckDB read it as it is, each time anew."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> List[str]: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class Reader:
    def __new__(cls, args: Sequence[str], note: Callable[[str], object]) -> Reader: ...
    def close(self) -> None: ...
    def height(self) -> int: ...
    def network(self) -> str: ...
    def hash(self, height: int) -> str: ...
    def block(self, height: int) -> Block: ...
    def spent(self, height: int) -> List[List[Coin]]: ...
    def coin(self, txid: str, vout: int) -> Optional[Coin]: ...
    def table(
        self,
        name: str,
        heights: Optional[Tuple[int, int]],
        columns: Optional[List[str]],
        forms: Tuple[str, str],
    ) -> Table: ...
