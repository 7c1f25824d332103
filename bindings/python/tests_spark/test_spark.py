"""Spark: a real cluster of 2 workers on this machine, one of whose executors is killed during a build."""

import os
import pathlib
import re
import signal
import sys
import threading
import time

import pytest
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

import tamis
import tamis.spark

ROWS = 100_000


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # The workers are started by scripts that look for it.
    os.environ.setdefault("SPARK_SCALA_VERSION", "2.13")
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("tamis")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.executor.memory": "1g",
        "spark.task.maxFailures": "8",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def executors(session) -> list[int]:
    """Returns the process numbers of the executors of this application."""
    application = session.sparkContext.applicationId.encode()
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if application in command and b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def texts(spark):
    text = F.concat(F.lit("key "), F.col("id").cast("string")).alias("text")
    return spark.range(ROWS, numPartitions=6).select("id", text)


@pytest.mark.parametrize("kind", ["split_block_bloom", "counting_quotient"])
def test_kinds_that_merge(texts, kind):
    ours = tamis.spark.build(texts, "text", 0.01, kind=kind, seed=7)
    assert ours.kind == kind and ours.capacity == ROWS
    assert ours.contains([f"key {key}" for key in range(ROWS)]).all()
    assert ours.contains([f"other {key}" for key in range(20_000)]).mean() < 0.013
    alone = tamis.build((f"key {key}" for key in range(ROWS)), 0.01, kind=kind, capacity=ROWS, seed=7)
    assert ours == alone


@pytest.mark.parametrize(("in_driver", "mergers"), [(0, 8), (300_000, 2), (300_000, 8)])
def test_large_filters_are_merged_by_executors(texts, monkeypatch, in_driver, mergers):
    """6 filters of 132 kB: one is too large for the driver, all are too many for 2 mergers or fit into one."""
    monkeypatch.setattr(tamis.spark, "_IN_DRIVER", in_driver)
    monkeypatch.setattr(tamis.spark, "_MERGERS", mergers)
    ours = tamis.spark.build(texts, "id", 0.01, capacity=ROWS, seed=7)
    assert ours == tamis.build(range(ROWS), 0.01, kind="split_block_bloom", capacity=ROWS, seed=7)


def test_a_build_caches_nothing_that_stays(spark, texts):
    before = set(spark.sparkContext._jsc.getPersistentRDDs())
    tamis.spark.build(texts, "id", capacity=ROWS)
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) == before


@pytest.mark.parametrize("kind", ["ribbon", "xorsat"])
def test_static_kinds(texts, kind):
    rows = texts.union(texts.limit(1000))
    ours = tamis.spark.build(rows, "id", 0.01, kind=kind, seed=7)
    assert len(ours) == ROWS
    assert ours == tamis.build(range(ROWS), 0.01, kind=kind, seed=7)


def test_nothing_to_build(spark):
    empty = spark.range(0)
    for kind in ("bloom", "ribbon"):
        ours = tamis.spark.build(empty, "id", kind=kind)
        assert len(ours) == 0 and 7 not in ours
        joined = tamis.spark.semi_join(spark.range(10), empty, "id", kind=kind)
        assert joined.count() == 0 and tamis.spark.semi_join(empty, spark.range(10), "id", kind=kind).count() == 0
    assert empty.where(tamis.spark.contains("id", tamis.build([1]))).count() == 0
    nulls = spark.range(10).select(F.lit(None).cast("string").alias("word"))
    assert len(tamis.spark.build(nulls, "word")) == 0
    some = spark.range(10).select(F.when(F.col("id") > 4, F.col("id")).alias("id"))
    assert all(len(tamis.spark.build(some, "id", kind=kind)) == 5 for kind in ("bloom", "ribbon"))
    few = spark.range(3, numPartitions=6)
    assert len(tamis.spark.build(few, "id", kind="ribbon")) == 3


def test_contains(spark, texts):
    ours = tamis.build([f"key {key}" for key in range(0, ROWS, 2)], 0.001)
    found = texts.where(tamis.spark.contains("text", ours))
    count = found.count()
    assert ROWS // 2 <= count < ROWS * 0.51
    assert found.where(F.col("id") % 2 == 0).count() == ROWS // 2
    null = spark.range(1).select(tamis.spark.contains(F.lit(None).cast("string"), ours).alias("found"))
    assert null.collect()[0]["found"] is False


def test_semi_join(spark, texts):
    small = spark.range(0, ROWS * 2, 100).select("id")
    counters = Observation()
    joined = tamis.spark.semi_join(texts, small, "id", counters=counters)
    assert joined.columns == ["id", "text"]
    assert sorted(row["id"] for row in joined.collect()) == list(range(0, ROWS, 100))
    assert counters.get["rows"] == ROWS
    assert ROWS // 100 <= counters.get["kept"] < ROWS * 0.03


def test_wrong_types(spark, texts):
    with pytest.raises(Exception, match="not Float64|cast the column"):
        tamis.spark.build(spark.range(3).select(F.col("id").cast("double")), "id", capacity=10)
    with pytest.raises(tamis.UnsupportedError, match="merge"):
        tamis.spark.build(texts, "id", kind="cuckoo", capacity=10)
    for kind in ("split_block_bloom", "ribbon"):
        with pytest.raises(tamis.InvalidInputError, match="rate"):
            tamis.spark.build(spark.range(3), "id", float("nan"), kind=kind, capacity=10)
    with pytest.raises(tamis.InvalidInputError, match="no filter named blom"):
        tamis.spark.build(texts, "id", kind="blom", capacity=10)


def test_another_version_on_an_executor(spark, monkeypatch):
    monkeypatch.setattr(tamis.spark, "__version__", "0.0.1")
    with pytest.raises(Exception, match=r"the driver has tamis 0\.0\.1, but this executor has tamis"):
        tamis.spark.build(spark.range(10), "id", capacity=10)
    with pytest.raises(Exception, match=r"this executor has tamis"):
        tamis.spark.build(spark.range(10), "id", kind="ribbon")
    with pytest.raises(Exception, match=r"this executor has tamis"):
        spark.range(10).select(tamis.spark.contains("id", tamis.build([1]))).collect()


def two_executors(session) -> list[int]:
    """Waits for 2 executors. Returns their process numbers."""
    deadline = time.monotonic() + 60
    while len(found := executors(session)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def slow_rows(session):
    def slowly(batches):
        # Each of 16 tasks takes 0.3 s, so that the executor is killed in the middle of the build.
        time.sleep(0.3)
        yield from batches

    return session.range(ROWS, numPartitions=16).mapInArrow(slowly, "id bigint")


@pytest.mark.parametrize("kind", ["split_block_bloom", "ribbon"])
def test_a_killed_executor(spark, kind):
    two_executors(spark)
    slow = slow_rows(spark)
    killed = []

    def kill() -> None:
        time.sleep(0.5)
        killed.append(executors(spark)[0])
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    ours = tamis.spark.build(slow, "id", kind=kind, capacity=ROWS, seed=3)
    thread.join()
    assert killed[0] not in executors(spark)
    assert ours == tamis.build(range(ROWS), kind=kind, capacity=ROWS, seed=3)
    # Another build runs on what is left, and on the executor that takes its place.
    assert tamis.spark.build(slow, "id", kind=kind, capacity=ROWS, seed=3) == ours


def test_an_executor_that_is_killed_between_counting_and_solving(spark, monkeypatch):
    """The parts that the executor held are made again."""
    solve = tamis.spark._solve
    killed = []

    def kill_and_solve(*arguments):
        killed.append(two_executors(spark)[0])
        os.kill(killed[0], signal.SIGKILL)
        return solve(*arguments)

    two_executors(spark)
    monkeypatch.setattr(tamis.spark, "_solve", kill_and_solve)
    rows = spark.range(ROWS, numPartitions=6)
    ours = tamis.spark.build(rows, "id", kind="ribbon", seed=3)
    assert len(killed) == 1 and killed[0] not in executors(spark)
    assert ours == tamis.build(range(ROWS), kind="ribbon", seed=3)


def test_examples_of_the_documentation(spark, tmp_path):
    page = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
    blocks = re.findall(r"^```python,spark\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    joined = str(tmp_path / "joined")
    ids = spark.range(1000)
    orders = ids.withColumn("customer", F.col("id"))
    scope = {"spark": spark, "tamis": tamis, "customers": ids.where("id % 10 = 0"), "orders": orders}
    for block in blocks:
        exec(compile(block.replace('"joined"', repr(joined)), str(page), "exec"), scope)
    assert sorted(row.id for row in spark.read.parquet(joined).collect()) == list(range(0, 1000, 10))
    assert scope["customers"].contains(range(1000)).all()


def test_filters_of_spark_come_and_go(spark):
    """Spark's own `BloomFilter` is read here, and Spark reads what `export` returns."""
    numbers = spark.range(ROWS)
    stream = spark._jvm.java.io.ByteArrayOutputStream()
    numbers._jdf.stat().bloomFilter("id", ROWS, 0.01).writeTo(stream)
    data = bytes(stream.toByteArray())
    theirs = tamis.import_filter(data)
    assert theirs.hash == "spark_murmur3" and theirs.contains(range(ROWS)).all()
    assert theirs.export("spark_v2" if data[3] == 2 else "spark_v1") == data

    ours = tamis.build([f"key-{key}" for key in range(1000)], 0.01, format="spark_v2")
    stream = spark._jvm.java.io.ByteArrayInputStream(ours.export("spark_v2"))
    read = spark._jvm.org.apache.spark.util.sketch.BloomFilter.readFrom(stream)
    assert all(read.mightContainString(f"key-{key}") for key in range(1000))
    assert sum(read.mightContainString(f"other-{key}") for key in range(1000)) < 60
