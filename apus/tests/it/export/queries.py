"""Opens exported files with DuckDB, pyarrow and sqlite3, and holds their sums against others.

Arguments: the directory of the files, and a JSON object of what is expected.
"""
import json
import sqlite3
import sys

import duckdb
import pyarrow.compute
import pyarrow.parquet

directory, expected = sys.argv[1], json.loads(sys.argv[2])
duck = duckdb.connect()


def one(query):
    """The only row of a result."""
    return duck.sql(query).fetchall()[0]


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found} instead of {wanted}")


for form in ["hex", "raw"]:
    for table, (rows, column, total) in expected["tables"].items():
        name = "utxos" if table == "coins" else table
        parquet = f"{directory}/{table}-{form}.parquet"
        sums = f"SELECT count(*), sum({column}) FROM"
        for source in [f"'{parquet}'", f"read_csv('{directory}/{table}.csv')"]:
            found = [int(n) for n in one(f"{sums} {source}")]
            check(f"DuckDB, {source}", found, [rows, total])
        read = pyarrow.parquet.read_table(parquet)
        found = [read.num_rows, pyarrow.compute.sum(read[column]).as_py()]
        check(f"pyarrow, {parquet}", found, [rows, total])
        abouts = pyarrow.parquet.read_schema(parquet).metadata
        for field in read.schema.names:
            check(f"description of {field}", f"column.{field}".encode() in abouts, True)
        database = sqlite3.connect(f"{directory}/{table}-{form}.sqlite")
        found = list(database.execute(f"{sums} {name}").fetchone())
        check(f"sqlite3, {table}", found, [rows, total])
        found = database.execute("PRAGMA integrity_check").fetchone()
        check(f"integrity of {table}", found, ("ok",))

# The largest coin is found by its txid, in each form and format.
txid, value = expected["txid"], expected["value"]
where = f"SELECT max(value) FROM '{directory}/coins-hex.parquet' WHERE txid = '{txid}'"
check("DuckDB, by hex", one(where)[0], value)
where = f"SELECT max(value) FROM '{directory}/coins-raw.parquet' WHERE hex(txid) = upper('{txid}')"
check("DuckDB, by bytes", one(where)[0], value)
database = sqlite3.connect(f"{directory}/coins-raw.sqlite")
found = database.execute("SELECT max(value) FROM utxos WHERE txid = ?", (bytes.fromhex(txid),))
check("sqlite3, by bytes", found.fetchone()[0], value)

# An input and the output that it spends meet.
join = f"""SELECT count(*) FROM '{directory}/inputs-hex.parquet' i
    JOIN '{directory}/outputs-hex.parquet' o ON i.prev_txid = o.txid AND i.prev_vout = o.vout
    WHERE i.prev_value = o.value AND i.prev_scriptpubkey = o.scriptpubkey
    AND i.prev_height = o.height AND i.prev_type = o.type"""
spends = f"SELECT count(prev_value) FROM '{directory}/inputs-hex.parquet'"
check("inputs that meet outputs", one(join), one(spends))
