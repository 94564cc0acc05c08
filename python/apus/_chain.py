"""The chain of a data directory as a sequence of blocks, and as tables."""

from __future__ import annotations

import operator
from typing import (
    TYPE_CHECKING,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    SupportsIndex,
    Union,
    overload,
)

from . import _apus
from ._arguments import arguments
from ._commands import note
from ._options import ChainOptions, DirectoryOptions, StrPath

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Unpack

    HashForm = Literal["hex", "raw", "rawle"]
    BytesForm = Literal["hex", "raw"]

__all__ = ["Chain"]


class Chain:
    """The active chain of a data directory that Bitcoin Core or Apus has made, and its UTXO set.

    The directory is locked for reading and never changed: other programs may read it at the same
    time, but bitcoind must not be running on it. The chain is that of the moment of opening.

    >>> chain = Chain(synced, chain="regtest")
    >>> len(chain), chain[0].hash[:8], chain[-1].height
    (207, '0f9188f1', 206)
    >>> sum(len(block) for block in chain[100:110])
    10
    >>> chain.close()

    A ``with`` statement closes it, too.
    """

    def __init__(self, datadir: Optional[StrPath] = None, **options: Unpack[ChainOptions]) -> None:
        """Opens the directory; without one, the one that bitcoin.conf names or Bitcoin Core's own.

        Raises :class:`Locked` if another program has it open for writing.
        """
        given: Dict[str, object] = {"datadir": datadir, **options}
        self._reader = _apus.Reader(arguments("status", DirectoryOptions, given, "Chain"), note)
        self._height = self._reader.height()

    @property
    def height(self) -> int:
        """The height of the best block."""
        return self._height

    @property
    def network(self) -> str:
        """The name of the network, as in ``chain=``."""
        return self._reader.network()

    def __len__(self) -> int:
        """The number of blocks: one more than the height."""
        return self._height + 1

    @overload
    def __getitem__(self, height: SupportsIndex) -> _apus.Block: ...
    @overload
    def __getitem__(self, height: slice) -> List[_apus.Block]: ...
    def __getitem__(
        self, height: Union[SupportsIndex, slice]
    ) -> Union[_apus.Block, List[_apus.Block]]:
        """The block at a height, or from the tip if it is negative; a slice is a list of blocks."""
        if isinstance(height, slice):
            return [self._reader.block(at) for at in range(*height.indices(len(self)))]
        return self._reader.block(self._at(height))

    def __iter__(self) -> Iterator[_apus.Block]:
        """All blocks, by height. One block is in memory at a time."""
        return (self._reader.block(height) for height in range(len(self)))

    def __reversed__(self) -> Iterator[_apus.Block]:
        """All blocks, from the tip down."""
        return (self._reader.block(height) for height in reversed(range(len(self))))

    def hash(self, height: SupportsIndex) -> str:
        """The hash of the block at a height, without reading the block."""
        return self._reader.hash(self._at(height))

    def undo(self, height: SupportsIndex) -> List[List[_apus.Coin]]:
        """The coins that each transaction of a block but the coinbase spends, in the order of its
        inputs, from undo data.

        >>> with Chain(synced, chain="regtest") as chain:
        ...     [[coin.value for coin in coins] for coins in chain.undo(206)]
        [[100000000, 100000000]]
        """
        return self._reader.spent(self._at(height))

    def coin(self, txid: str, n: int) -> Optional[_apus.Coin]:
        """The coin of output ``n`` of a transaction; None if it is spent or does not exist.

        >>> with Chain(synced, chain="regtest") as chain:
        ...     chain.coin(chain[206].transactions[0].txid, 0)
        <apus.Coin 2500000232 satoshi, p2wpkh, of block 206>
        """
        return self._reader.coin(txid, n)

    def coins(
        self,
        start: Optional[int] = None,
        stop: Optional[int] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        txid: HashForm = "hex",
        spk: BytesForm = "hex",
    ) -> _apus.Table:
        """The UTXO set, or the coins that the blocks in ``range(start, stop)`` have created."""
        return self._table("coins", start, stop, columns, txid, spk)

    def blocks(
        self,
        start: Optional[int] = None,
        stop: Optional[int] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        txid: HashForm = "hex",
    ) -> _apus.Table:
        """A row for each block in ``range(start, stop)``, which is taken as in a slice: heights below
        0 count from the tip, those above the tip are left out, and a range may be empty.

        >>> import pyarrow
        >>> with Chain(synced, chain="regtest") as chain:
        ...     pyarrow.table(chain.blocks(-3, columns=["height", "subsidy"])).to_pylist()
        [{'height': 204, 'subsidy': 2500000000}, {'height': 205, 'subsidy': 2500000000},
         {'height': 206, 'subsidy': 2500000000}]
        """
        return self._table("blocks", start, stop, columns, txid, "hex")

    def transactions(
        self,
        start: Optional[int] = None,
        stop: Optional[int] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        txid: HashForm = "hex",
    ) -> _apus.Table:
        """A row for each transaction of the blocks in ``range(start, stop)``."""
        return self._table("transactions", start, stop, columns, txid, "hex")

    def inputs(
        self,
        start: Optional[int] = None,
        stop: Optional[int] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        txid: HashForm = "hex",
        spk: BytesForm = "hex",
    ) -> _apus.Table:
        """A row for each input, with the coin that it spends, in ``range(start, stop)``."""
        return self._table("inputs", start, stop, columns, txid, spk)

    def outputs(
        self,
        start: Optional[int] = None,
        stop: Optional[int] = None,
        *,
        columns: Optional[Sequence[str]] = None,
        txid: HashForm = "hex",
        spk: BytesForm = "hex",
    ) -> _apus.Table:
        """A row for each output, spent or not, in ``range(start, stop)``."""
        return self._table("outputs", start, stop, columns, txid, spk)

    def close(self) -> None:
        """Releases the lock, once no table is being read any more."""
        self._reader.close()

    def __enter__(self) -> Chain:
        return self

    def __exit__(
        self,
        kind: Optional[type],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<apus.Chain of height {self._height}>"

    def _at(self, height: SupportsIndex) -> int:
        """Returns a height from 0 up."""
        index = operator.index(height)
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"there is no block {index}: the chain ends at {self._height}")
        return at

    def _table(
        self,
        name: str,
        start: Optional[int],
        stop: Optional[int],
        columns: Optional[Sequence[str]],
        txid: str,
        spk: str,
    ) -> _apus.Table:
        first, end, _ = slice(start, stop).indices(len(self))
        heights = (first, end - 1) if first < end else None
        return self._reader.table(name, heights, names_of(columns), (txid, spk))


def names_of(columns: Optional[Sequence[str]]) -> Optional[List[str]]:
    """Returns the names of columns as a list; None for all.

    >>> names_of("height")
    Traceback (most recent call last):
    TypeError: columns must be a sequence of names, such as ['height'], not the text 'height'
    """
    if isinstance(columns, (str, bytes)):
        what = f"columns must be a sequence of names, such as [{columns!r}], not the text {columns!r}"
        raise TypeError(what)
    return None if columns is None else list(columns)
