#!/usr/bin/env python3
"""Reads tables of `apus shard export` with Spark, which must read only the files of the heights asked for.

    scripts/spark.py APUS TESTCHAIN     (needs the package pyspark, and Java)
"""

import os
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main():
    apus, testchain = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as work:
        def run(*command):
            return subprocess.run(command, check=True, cwd=work, capture_output=True, text=True).stdout

        run(testchain, "--blocks", "60", "--bytes", "3M", "--empty", "30", "--output", "chain")
        run(apus, "sync", "--regtest", "--from", "chain", "--datadir", "data", "--quiet")
        tables = ("transactions", "outputs", "blocks")
        for table in tables:
            run(apus, "shard", "export", table, "--regtest", "--datadir", "data", "-o", "out",
                "--blocks", "50")
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        transactions, outputs, blocks = (spark.read.parquet(f"{work}/out/{table}") for table in tables)
        few = transactions.where((F.col("start_height") >= 150) & (F.col("start_height") < 200))
        plan = few._jdf.queryExecution().executedPlan().toString()
        assert "PartitionFilters: [isnotnull(start_height" in plan, plan
        counted = few.agg(F.min("height"), F.max("height"), F.count("*")).collect()[0]
        assert tuple(counted)[:2] == (150, 199), counted
        files = few.select(F.input_file_name()).distinct().count()
        assert files == 1 < transactions.select(F.input_file_name()).distinct().count(), files
        sums = [frame.agg(F.sum(column)).collect()[0][0]
                for frame, column in ((blocks, "transactions"), (blocks, "outputs"))]
        assert sums == [transactions.count(), outputs.count()], sums
        print(f"Spark {spark.version}: {counted[2]} transactions of 50 blocks from one file")
        spark.stop()


main()
