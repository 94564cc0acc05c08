"""Blocks, undo data, coins and tables, compared with other code and with `apus export`."""

import hashlib
import itertools
import json
import subprocess

import pytest

import apus

TABLES = ["blocks", "transactions", "inputs", "outputs", "coins"]


@pytest.fixture(scope="module")
def chain(mainnet):
    with apus.Chain(mainnet) as chain:
        yield chain


@pytest.fixture(scope="module")
def busy_chain(busy):
    with apus.Chain(busy, chain="regtest") as chain:
        yield chain


def sha256d(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()[::-1].hex()


def test_a_chain_is_a_sequence(chain):
    assert (len(chain), chain.height, chain.network) == (14132, 14131, "main")
    genesis, tip = chain[0], chain[-1]
    assert genesis.hash == "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
    assert chain.hash(-1) == tip.hash and tip.height == 14131
    assert chain[14131].raw == tip.raw and chain[-14132].height == 0
    assert [block.height for block in chain[3:9:2]] == [3, 5, 7]
    assert next(reversed(chain)).height == 14131
    for wrong in [14132, -14133]:
        with pytest.raises(IndexError, match="14131"):
            chain[wrong]
    with pytest.raises(TypeError):
        chain["tip"]


def test_blocks_are_those_whose_hashes_they_have(chain):
    before = "0" * 64
    for block in itertools.islice(chain, 300):
        assert block.header.previous == before
        assert sha256d(block.raw[:80]) == block.hash and bytes(block) == block.raw
        before = block.hash
    block = chain[170]
    assert len(block) == len(block.transactions) == 2
    coinbase, payment = block.transactions
    assert coinbase.coinbase and coinbase.inputs[0].prev_txid is None
    assert sha256d(payment.raw) == payment.txid == payment.wtxid
    assert [output.value for output in payment.outputs] == [10 * 10**8, 40 * 10**8]
    assert payment.outputs[0].type == "p2pk" and payment.inputs[0].prev_vout == 0
    assert payment.weight == 4 * payment.size and payment.vsize == payment.size
    assert block.transactions is block.transactions


def test_undo_data_has_the_coins_that_inputs_spend(chain):
    [[coin]] = chain.undo(170)
    assert (coin.value, coin.height, coin.coinbase) == (50 * 10**8, 9, True)
    created = chain[9].transactions[0]
    assert created.outputs[0].scriptpubkey == coin.scriptpubkey
    assert chain.undo(0) == []


def test_a_coin_is_found_until_it_is_spent(chain):
    unspent = chain[14131].transactions[0].txid
    assert chain.coin(unspent, 0).height == 14131
    assert chain.coin(unspent, 1) is None
    assert chain.coin(chain[9].transactions[0].txid, 0) is None
    with pytest.raises(ValueError):
        chain.coin("no hash", 0)


def test_every_kind_of_script_is_read(busy_chain):
    blocks = busy_chain[-60:]
    assert any(item.witness for tx in blocks[-1].transactions for item in tx.inputs)
    for block in blocks:
        spent = busy_chain.undo(block.height)
        assert len(spent) == len(block) - 1
        for tx, coins in zip(block.transactions[1:], spent):
            assert len(tx.inputs) == len(coins)
            assert tx.vsize <= tx.size and tx.weight < 4 * tx.size + 1
            assert sum(coin.value for coin in coins) >= sum(o.value for o in tx.outputs)


def exported(program, directory, table, path, *options):
    command = [program, "export", table, f"--datadir={directory}", "-o", path, *options]
    subprocess.run(command, check=True, capture_output=True)
    return pytest.importorskip("pyarrow.parquet").read_table(path)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("forms", [("hex", "hex"), ("rawle", "raw")])
def test_tables_are_those_of_an_export(busy, busy_chain, program, tmp_path, table, forms):
    import pyarrow

    txid, spk = forms
    options = ["--regtest", "--txid", txid, "--spk", spk, "--start-height", "150"]
    expected = exported(program, busy, table, tmp_path / "t.parquet", *options)
    given = {"txid": txid} if table in ("blocks", "transactions") else {"txid": txid, "spk": spk}
    found = pyarrow.table(getattr(busy_chain, table)(150, **given))
    assert found.schema.names == expected.schema.names
    assert found.num_rows == expected.num_rows > 50
    for name in found.schema.names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    about = found.schema.metadata
    for fact in [b"chain", b"best_block", b"start_height", b"stop_height", b"table"]:
        assert about[fact] == expected.schema.metadata[fact]


def test_a_table_has_the_rows_of_a_range(chain):
    pyarrow = pytest.importorskip("pyarrow")
    heights = lambda table: pyarrow.table(table)["height"].to_pylist()
    assert heights(chain.blocks(5, 8)) == [5, 6, 7]
    assert heights(chain.blocks(-2)) == [14130, 14131]
    assert heights(chain.blocks(14130, 14132)) == [14130, 14131]
    assert heights(chain.blocks(stop=2)) == [0, 1]
    # As in a slice, a range is cut to what there is, and may be empty.
    assert heights(chain.blocks(14130, 10**6)) == [14130, 14131]
    assert heights(chain.blocks(-(10**6), 2)) == [0, 1]
    steps = [heights(chain.blocks(at, at + 5000)) for at in range(0, 20_000, 5000)]
    assert sum(steps, []) == list(range(14132))
    for start, stop in [(8, 5), (5, 5), (14132, None), (10**6, 10**7), (0, 0), (5, -14131)]:
        for name in TABLES:
            empty = pyarrow.table(getattr(chain, name)(start, stop))
            assert empty.num_rows == 0 and empty.schema == pyarrow.schema(getattr(chain, name)())
    with pytest.raises(TypeError):
        chain.blocks("5")


def test_columns_may_be_chosen(chain):
    pyarrow = pytest.importorskip("pyarrow")
    table = chain.outputs(columns=["value", "height"])
    assert table.columns == ["value", "height"] and table.name == "outputs"
    assert pyarrow.table(table).schema.names == ["value", "height"]
    with pytest.raises(apus.WrongOptions, match="no column 'amount'.*value"):
        chain.outputs(columns=["amount"])
    for name in TABLES:
        with pytest.raises(TypeError, match="not the text 'height'"):
            getattr(chain, name)(columns="height")
    with pytest.raises(apus.WrongOptions, match="hex, raw or rawle"):
        chain.blocks(txid="octal")


def test_other_libraries_read_a_table_as_it_is(chain):
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    coins = chain.coins()
    total = 706550 * 10**8
    assert sum(pyarrow.table(coins)["value"].to_pylist()) == total
    assert polars.DataFrame(coins)["value"].sum() == total
    assert duckdb.sql("SELECT sum(value) FROM coins").fetchall()[0][0] == total
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert pandas.DataFrame.from_arrow(coins)["value"].sum() == total
    # Two tables at a time, of which one waits for the other.
    inputs, blocks = chain.inputs(), chain.blocks()
    joined = "SELECT count(*) FROM inputs JOIN blocks USING (height)"
    assert duckdb.sql(joined).fetchall()[0][0] == 14997


def test_a_stream_that_is_not_read_ends_with_its_owner(mainnet):
    pyarrow = pytest.importorskip("pyarrow")
    with apus.Chain(mainnet) as chain:
        reader = pyarrow.RecordBatchReader.from_stream(chain.outputs())
        first = reader.read_next_batch()
        assert first.num_rows > 0
    del reader
    # A stream outlives the chain that it was asked of.
    with apus.Chain(mainnet) as chain:
        outputs = chain.outputs(columns=["value"])
    assert pyarrow.table(outputs).num_rows == 14282
    schema = pyarrow.schema(outputs)
    assert schema.names == ["value"]
