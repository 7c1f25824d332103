"""Compares tamis.spark with Spark's own Bloom filter and join, in one session on this machine.

    pip install "tamis[spark]"
    python bindings/python/bench_spark.py [ROWS [ROUNDS [join]]]

With `join` only the join is measured. Each figure is the median wall time of several rounds, in which the two
take turns, after one round that warms both. The keys are cached in memory, so that making them is not measured. A
join moves rows: Spark's broadcast of small tables is switched off for both.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import tamis
import tamis.spark

ROWS = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**7
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
#: Non-members whose lookups measure a rate.
STRANGERS = 10**6
FPR = 0.01
#: The rows of the small table of a join.
SMALL = 10**5


def turns(actions: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Returns the median wall time of each action, in seconds."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(ROUNDS + 1):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if turn > 0:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def report(what: str, times: dict[str, float], note: str = "") -> None:
    own, theirs = times.values()
    print(f"| {what} | {own:.2f} s | {theirs:.2f} s | {own / theirs:.2f} | {note} |", flush=True)


def cached(frame: DataFrame) -> DataFrame:
    frame = frame.persist()
    frame.count()
    return frame


def their_bytes(spark: SparkSession, made: Any) -> bytes:
    stream = spark._jvm.java.io.ByteArrayOutputStream()  # type: ignore[union-attr]
    made.writeTo(stream)
    return bytes(stream.toByteArray())


def might_contain(spark: SparkSession, data: bytes, column: str) -> Column:
    """Returns Spark's own condition, which no function of its interface makes."""
    jvm: Any = spark._jvm
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    literal = utils.expression(F.lit(bytearray(data))._jc)
    key = utils.expression(F.col(column)._jc)
    return Column(utils.column(expressions.BloomFilterMightContain(literal, key)))


def build_and_probe(spark: SparkSession) -> None:
    """Measures a filter of all rows, and the lookup of as many."""

    def keys(start: int, end: int) -> DataFrame:
        return spark.range(start, end, numPartitions=4).select(F.xxhash64("id").alias("key"))

    members = cached(keys(0, ROWS))
    strangers = np.array(keys(ROWS, ROWS + STRANGERS).toArrow().column("key"))
    made: dict[str, Any] = {}

    def build_ours() -> None:
        made["ours"] = tamis.spark.build(members, "key", FPR, capacity=ROWS)

    def build_theirs() -> None:
        made["theirs"] = members._jdf.stat().bloomFilter("key", ROWS, FPR)

    times = turns({"tamis": build_ours, "Spark": build_theirs})
    ours, data = made["ours"], their_bytes(spark, made["theirs"])
    theirs = tamis.import_filter(data)
    rates = [filter.contains(strangers).mean() for filter in (ours, theirs)]
    sizes = [filter.nbytes * 8 / ROWS for filter in (ours, theirs)]
    note = "rates {:.2%} and {:.2%}, {:.1f} and {:.1f} bits per key".format(*rates, *sizes)
    report("build", times, note)

    probed = cached(keys(ROWS - ROWS // 20, 2 * ROWS - ROWS // 20))
    ours_in = tamis.spark.contains("key", ours)
    theirs_in = might_contain(spark, data, "key")
    counts: dict[str, int] = {}

    def probe(name: str, condition: Column) -> Callable[[], None]:
        def count() -> None:
            counts[name] = probed.where(condition).count()

        return count

    times = turns({"tamis": probe("tamis", ours_in), "Spark": probe("Spark", theirs_in)})
    report("probe, 5 % members", times, f"rows kept {counts['tamis']} and {counts['Spark']}")
    members.unpersist()
    probed.unpersist()


def join(spark: SparkSession) -> None:
    """Measures a semi-join of all rows with a small table."""
    # A tenth of the rows have one of 100 keys. 5 % of the rows have a partner.
    number = F.when(F.rand(1) < 0.1, (F.rand(2) * 100).cast("bigint") * 1000 + SMALL)
    number = number.otherwise((F.rand(3) * SMALL * 18).cast("bigint"))
    big = spark.range(ROWS, numPartitions=4).select(F.xxhash64(number).alias("key"), F.col("id").alias("payload"))
    big = cached(big.withColumn("text", F.concat(F.lit("order "), F.col("payload").cast("string"))))
    small = cached(spark.range(SMALL).select(F.xxhash64("id").alias("key")))
    counters = Observation()
    joined = tamis.spark.semi_join(big, small, "key", capacity=SMALL, counters=counters)
    assert joined.count() == big.join(small, "key", "left_semi").count()
    kept = counters.get["kept"] / counters.get["rows"]

    def write(frame: DataFrame) -> None:
        """Makes all columns of all rows, unlike a count."""
        frame.write.format("noop").mode("overwrite").save()

    joins = {
        "tamis": lambda: write(tamis.spark.semi_join(big, small, "key", capacity=SMALL)),
        "Spark": lambda: write(big.join(small, "key", "left_semi")),
    }
    report(f"semi-join with {SMALL} rows", turns(joins), f"{kept:.1%} of the rows kept")


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("tamis")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    print(f"{ROWS} rows, {ROUNDS} rounds\n\n| what | tamis | Spark | ratio | |\n| --- | ---: | ---: | ---: | --- |")
    if "join" not in sys.argv:
        build_and_probe(spark)
    join(spark)
    spark.stop()


if __name__ == "__main__":
    main()
