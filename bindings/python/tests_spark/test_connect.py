"""Spark Connect: a server on this machine. A process has classic sessions or remote ones, so this test starts
another process."""

import os
import subprocess
import sys

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

import tamis
import tamis.spark

ROWS = 20_000


def main() -> None:
    builder = SparkSession.builder.remote("local[2]").appName("tamis")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    assert type(session).__module__.startswith("pyspark.sql.connect")
    text = F.concat(F.lit("key "), F.col("id").cast("string")).alias("text")
    frame = session.range(ROWS, numPartitions=3).select("id", text)

    texts = [f"key {key}" for key in range(ROWS)]
    merged = tamis.spark.build(frame, "text", seed=7)
    assert merged == tamis.build(texts, kind="split_block_bloom", capacity=ROWS, seed=7)
    solved = tamis.spark.build(frame, "id", kind="ribbon", parts=2, seed=7)
    assert solved == tamis.build(range(ROWS), kind="ribbon", seed=7)

    half = tamis.build(texts[::2], 0.001)
    found = frame.where(tamis.spark.contains("text", half))
    assert ROWS // 2 <= found.count() < ROWS * 0.51

    small = session.range(0, ROWS * 2, 100)
    counters = Observation()
    joined = tamis.spark.semi_join(frame, small, "id", counters=counters)
    assert sorted(row["id"] for row in joined.collect()) == list(range(0, ROWS, 100))
    assert counters.get["rows"] == ROWS
    assert ROWS // 100 <= counters.get["kept"] < ROWS * 0.03
    session.stop()


def test_connect():
    names = ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"]
    environment = os.environ | dict.fromkeys(names, sys.executable)
    subprocess.run([sys.executable, __file__], env=environment, check=True, timeout=300)


if __name__ == "__main__":
    main()
