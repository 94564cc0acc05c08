"""Rows a second into Arrow, for each table, next to two others on the same blocks: `apus export` to
Parquet, and python-bitcoin-blockchain-parser, of whose fields a table of Arrow is made, with those
columns that it knows. Writes docs/bench/python.json.

    make bench-python
    scripts/python.sh bench --size 300 --runs 3

Everything is read from the page cache. A table of Arrow is read batch by batch, and its rows are
counted; an export is the whole process, with the opening of the directory, which Arrow's time has,
too. All counts of rows must agree.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

import pyarrow
from blockchain_parser.block import Block
from blockchain_parser.blockchain import get_blocks

import apus

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLES = ["blocks", "transactions", "inputs", "outputs", "coins"]
FORMS = {"hex": ("hex", "hex"), "raw": ("rawle", "raw")}
# The other reader is slow: it reads the file up to this many bytes.
PARSED_BYTES = 24_000_000


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, default=300, help="MB of generated blocks")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/bench/python.json")
    given = options.parse_args()
    place = ROOT / "target" / "bench"
    place.mkdir(parents=True, exist_ok=True)
    blocks, directory = chain_of(place, given.size)
    results = {}
    for table in TABLES:
        for form in FORMS:
            if form == "hex" or table != "blocks":
                results[f"{table}, {form}"] = measure(directory, table, form, given.runs, place)
    parsed = parse(blocks, place)
    for table, (rows, seconds) in parsed.items():
        rate = rows / seconds
        found = results[f"{table}, hex"]
        found["blockchain_parser_rows_per_second"] = round(rate)
        found["times_blockchain_parser"] = round(found["arrow_rows_per_second"] / rate, 1)
    report(results)
    given.output.write_text(json.dumps(facts(given, results), indent=1) + "\n")


def chain_of(place, size):
    """Returns a file of generated blocks, and a directory that is synced with them."""
    blocks, directory = place / f"python-{size}.dat", place / f"python-{size}"
    if not (directory / "done").exists():
        count = max(1, size * 6 // 7)
        make = ["--blocks", str(count), "--bytes", f"{size}M", "--empty", "0"]
        subprocess.run([os.environ["APUS_TESTCHAIN"], *make, "-o", blocks], check=True)
        apus.sync(blocks, datadir=directory, chain="regtest", method="order")
        (directory / "done").touch()
    return blocks, directory


def measure(directory, table, form, runs, place):
    """Returns rows a second of a table, into Arrow and into a Parquet file."""
    arrow = [into_arrow(directory, table, form) for _ in range(runs + 1)][1:]
    parquet = [into_parquet(directory, table, form, place) for _ in range(runs + 1)][1:]
    counts = {rows for rows, _ in arrow + parquet}
    assert len(counts) == 1, f"{table}: the numbers of rows differ: {counts}"
    rows = counts.pop()
    seconds = [statistics.median(seconds for _, seconds in times) for times in (arrow, parquet)]
    return {
        "rows": rows,
        "arrow_seconds": round(seconds[0], 3),
        "arrow_rows_per_second": round(rows / seconds[0]),
        "parquet_seconds": round(seconds[1], 3),
        "parquet_rows_per_second": round(rows / seconds[1]),
        "times_parquet": round(seconds[1] / seconds[0], 2),
    }


def into_arrow(directory, table, form):
    txid, spk = FORMS[form]
    forms = {"txid": txid} if table in ("blocks", "transactions") else {"txid": txid, "spk": spk}
    begun = time.perf_counter()
    with apus.Chain(directory, chain="regtest") as chain:
        reader = pyarrow.RecordBatchReader.from_stream(getattr(chain, table)(**forms))
        rows = sum(batch.num_rows for batch in reader)
    return rows, time.perf_counter() - begun


def into_parquet(directory, table, form, place):
    txid, spk = FORMS[form]
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        output = pathlib.Path(temporary) / "table.parquet"
        command = [os.environ["APUS"], "export", table, f"--datadir={directory}", "--regtest"]
        command += ["--txid", txid, "--spk", spk, "--json", "-o", output]
        begun = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - begun
    return json.loads(done.stdout)["rows"], seconds


def parse(blocks, place):
    """Returns rows and seconds of the other reader, for the tables that it can make. It knows only
    the magic bytes of mainnet."""
    regtest, main = b"\xfa\xbf\xb5\xda", b"\xf9\xbe\xb4\xd9"
    framed = blocks.read_bytes()
    at = 0
    parts = []
    while at < len(framed) and at < PARSED_BYTES:
        assert framed[at : at + 4] == regtest
        end = at + 8 + int.from_bytes(framed[at + 4 : at + 8], "little")
        parts.append(main + framed[at + 4 : end])
        at = end
    with tempfile.NamedTemporaryFile(dir=place) as file:
        file.write(b"".join(parts))
        file.flush()
        return {table: timed(file.name, rows_of) for table, rows_of in PARSERS.items()}


def timed(path, rows_of):
    """Makes a table of Arrow of the rows of all blocks."""
    begun = time.perf_counter()
    rows = [row for raw in get_blocks(path) for row in rows_of(Block(raw))]
    columns = [pyarrow.array(column) for column in zip(*rows)]
    table = pyarrow.table(columns, names=[str(index) for index in range(len(columns))])
    return table.num_rows, time.perf_counter() - begun


def blocks_of(block):
    # It knows no heights, median times, and fees.
    header, transactions = block.header, block.transactions
    stamp = (header.version, header.previous_block_hash, header.merkle_root, header.timestamp)
    counts = [(tx.n_inputs, tx.n_outputs, tx.vsize) for tx in transactions]
    reward = sum(output.value for tx in transactions[:1] for output in tx.outputs)
    sums = tuple(map(sum, zip(*counts)))
    return [(block.hash, *stamp, header.bits, header.nonce, block.size, len(counts), reward, *sums)]


def transactions_of(block):
    # It knows no heights and fees.
    return [
        (at, tx.txid, tx.hash, tx.is_coinbase(), tx.version, tx.locktime, tx.size, tx.vsize)
        + (tx.n_inputs, tx.n_outputs, sum(output.value for output in tx.outputs))
        for at, tx in enumerate(block.transactions)
    ]


def inputs_of(block):
    # It knows no heights, and nothing of the coins that inputs spend.
    return [
        (tx.txid, at, its.transaction_hash, its.transaction_index, its.sequence_number)
        + (its.script.hex.hex(), b"".join(its.witnesses).hex())
        for tx in block.transactions
        for at, its in enumerate(tx.inputs)
    ]


def outputs_of(block):
    return [
        (tx.txid, at, output.value, output.type, output.script.hex.hex())
        for tx in block.transactions
        for at, output in enumerate(tx.outputs)
    ]


PARSERS = {
    "blocks": blocks_of,
    "transactions": transactions_of,
    "inputs": inputs_of,
    "outputs": outputs_of,
}


def report(results):
    print(
        f"{'table':20} {'rows':>10} {'Arrow':>12} {'Parquet':>12} {'times':>6} "
        f"{'blockchain-parser':>18} {'times':>6}"
    )
    for name, found in results.items():
        other = found.get("blockchain_parser_rows_per_second")
        print(
            f"{name:20} {found['rows']:10,} {found['arrow_rows_per_second']:10,}/s "
            f"{found['parquet_rows_per_second']:10,}/s {found['times_parquet']:6} "
            f"{f'{other:,}/s' if other else '':>18} "
            f"{found.get('times_blockchain_parser', ''):>6}"
        )


def facts(given, results):
    """Returns the results with what they were measured on."""
    cpu = pathlib.Path("/proc/cpuinfo")
    names = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(": ")[2] for line in names if line.startswith("model name")]
    return {
        "benchmark": "python",
        "date": datetime.date.today().isoformat(),
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "pyarrow": pyarrow.__version__,
        "apus": apus.__version__,
        "size_mb": given.size,
        "runs": given.runs,
        "parsed_mb": PARSED_BYTES // 1_000_000,
        "tables": results,
    }


main()
