"""Rows a second into Arrow, for each table, next to two others on the same blocks: `apus export` to
Parquet, and python-bitcoin-blockchain-parser, of whose fields a table of Arrow is made, with those
columns that it knows. Writes target/bench/python.json.

    make bench-python
    scripts/python.sh bench --size 300 --runs 9 --bitcoind PATH --bitcoinetl PATH

With a bitcoind, with bitcoin-cli next to it, and with bitcoin-etl (`pip install bitcoin-etl`, in an
environment of its own), this one's export of blocks and transactions by RPC is measured, too.

Everything is read from the page cache, and the quickest run counts. A table of Arrow is read batch
by batch, and its rows are counted; an export is the whole process, with the opening of the
directory, which Arrow's time has, too. All counts of rows must agree.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import resource
import shutil
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
# The first full block; those below it hold a coinbase.
FIRST = 151
# The other reader is slow: it reads this many bytes of full blocks.
PARSED_BYTES = 24_000_000
# So does bitcoin-etl; each of these blocks has about 1.2 MB.
ETL_BLOCKS = 10


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, default=300, help="MB of generated blocks")
    options.add_argument("--runs", type=int, default=9)
    options.add_argument("--output", type=pathlib.Path, default=ROOT / "target/bench/python.json")
    options.add_argument("--bitcoind", type=pathlib.Path)
    options.add_argument("--bitcoinetl", type=pathlib.Path)
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
    for table, run in parsed.items():
        rate, found = run["rows"] / run["seconds"], results[f"{table}, hex"]
        found["blockchain_parser_rows"] = run["rows"]
        found["blockchain_parser_seconds"] = round(run["seconds"], 3)
        found["blockchain_parser_cpu_seconds"] = round(run["cpu"], 3)
        found["blockchain_parser_rows_per_second"] = round(rate, 1)
        found["times_blockchain_parser"] = round(found["rows"] / found["arrow_seconds"] / rate, 1)
    report(results)
    etl = None
    if given.bitcoind and given.bitcoinetl:
        etl = by_etl(given, directory, place)
        seconds = sum(results[f"{table}, hex"]["arrow_seconds"] for table in TABLES[:4])
        rate = sum(results[f"{table}, hex"]["rows"] for table in TABLES[:4]) / seconds
        etl["arrow_rows_per_second"] = round(rate)
        etl["times"] = round(rate / etl["rows_per_second"], 1)
        print("bitcoin-etl, blocks, transactions, inputs and outputs together:", etl)
    given.output.write_text(json.dumps(facts(given, results, etl), indent=1) + "\n")


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
    """Returns rows a second of a table, into Arrow and into a Parquet file, of the quickest run."""
    arrow = [into_arrow(directory, table, form) for _ in range(runs + 1)]
    parquet = [into_parquet(directory, table, form, place) for _ in range(runs + 1)]
    counts = {run["rows"] for run in arrow + parquet}
    assert len(counts) == 1, f"{table}: the numbers of rows differ: {counts}"
    rows = counts.pop()
    arrow, parquet = (min(each, key=lambda run: run["seconds"]) for each in (arrow, parquet))
    return {
        "rows": rows,
        "arrow_seconds": round(arrow["seconds"], 3),
        "arrow_cpu_seconds": round(arrow["cpu"], 3),
        "arrow_rows_per_second": round(rows / arrow["seconds"]),
        "parquet_seconds": round(parquet["seconds"], 3),
        "parquet_cpu_seconds": round(parquet["cpu"], 3),
        "parquet_rows_per_second": round(rows / parquet["seconds"]),
        "times_parquet": round(parquet["seconds"] / arrow["seconds"], 2),
    }


def clocked(work):
    """Returns the rows that `work` counts, and its seconds of time and of all processors."""

    def cpu():
        processes = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        return sum(sum(resource.getrusage(whose)[:2]) for whose in processes)

    begun, before = time.perf_counter(), cpu()
    rows = work()
    return {"rows": rows, "seconds": time.perf_counter() - begun, "cpu": cpu() - before}


def into_arrow(directory, table, form):
    txid, spk = FORMS[form]
    forms = {"txid": txid} if table in ("blocks", "transactions") else {"txid": txid, "spk": spk}

    def work():
        with apus.Chain(directory, chain="regtest") as chain:
            reader = pyarrow.RecordBatchReader.from_stream(getattr(chain, table)(FIRST, **forms))
            return sum(batch.num_rows for batch in reader)

    return clocked(work)


def into_parquet(directory, table, form, place):
    txid, spk = FORMS[form]
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        output = pathlib.Path(temporary) / "table.parquet"
        command = [os.environ["APUS"], "export", table, f"--datadir={directory}", "--regtest"]
        command += ["--start-height", str(FIRST), "--txid", txid, "--spk", spk, "--json"]
        command += ["-o", output]

        def work():
            done = subprocess.run(command, check=True, capture_output=True)
            return json.loads(done.stdout)["rows"]

        return clocked(work)


def parse(blocks, place):
    """Returns rows and seconds of the other reader, for the tables that it can make. It knows only
    the magic bytes of mainnet."""
    regtest, main = b"\xfa\xbf\xb5\xda", b"\xf9\xbe\xb4\xd9"
    framed = blocks.read_bytes()
    parts, at, size = [], 0, 0
    while at < len(framed) and size < PARSED_BYTES:
        assert framed[at : at + 4] == regtest
        end = at + 8 + int.from_bytes(framed[at + 4 : at + 8], "little")
        parts.append(main + framed[at + 4 : end])
        size += end - at if len(parts) > FIRST else 0
        at = end
    parts = parts[FIRST:]
    with tempfile.NamedTemporaryFile(dir=place) as file:
        file.write(b"".join(parts))
        file.flush()
        return {table: timed(file.name, rows_of) for table, rows_of in PARSERS.items()}


def timed(path, rows_of):
    """Makes a table of Arrow of the rows of all blocks; the quicker of two runs counts."""

    def work():
        rows = [row for raw in get_blocks(path) for row in rows_of(Block(raw))]
        columns = [pyarrow.array(column) for column in zip(*rows)]
        names = [str(index) for index in range(len(columns))]
        return pyarrow.table(columns, names=names).num_rows

    return min((clocked(work) for _ in range(2)), key=lambda run: run["seconds"])


def by_etl(given, directory, place):
    """Returns rows a second of bitcoin-etl's export, of the first blocks that are not empty."""
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        home, out = pathlib.Path(temporary) / "node", pathlib.Path(temporary)
        shutil.copytree(directory, home)
        rpc = [f"-datadir={home}", "-regtest", "-rpcport=29443", "-rpcuser=u", "-rpcpassword=p"]
        node = subprocess.Popen(
            [given.bitcoind, *rpc, "-connect=0", "-listen=0", "-printtoconsole=0"]
        )
        cli = [given.bitcoind.with_name("bitcoin-cli"), *rpc]
        try:
            subprocess.run([*cli, "-rpcwait", "getblockcount"], check=True, capture_output=True)
            command = [given.bitcoinetl, "export_blocks_and_transactions", "--chain=bitcoin"]
            command += ["--provider-uri=http://u:p@127.0.0.1:29443"]
            command += [f"--start-block={FIRST}", f"--end-block={FIRST + ETL_BLOCKS - 1}"]
            command += [f"--blocks-output={out}/b.json", f"--transactions-output={out}/t.json"]
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds = time.perf_counter() - begun
        finally:
            subprocess.run([*cli, "stop"], capture_output=True)
            node.wait()
        blocks = (out / "b.json").read_text().splitlines()
        transactions = [json.loads(line) for line in (out / "t.json").open()]
    rows = len(blocks) + len(transactions)
    rows += sum(tx["input_count"] + tx["output_count"] for tx in transactions)
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
    }


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
            f"{f'{other:,.0f}/s' if other else '':>18} "
            f"{found.get('times_blockchain_parser', ''):>6}"
        )


def facts(given, results, etl):
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
        "bitcoin_etl": etl,
    }


main()
