"""Filters of other programs: read, answered, changed and written back."""

import pathlib
import pickle
import re

import numpy as np
import pytest
from conftest import ROOT

import tamis

FOREIGN = ROOT / "testdata/foreign"
TEXTS = [f"key-{i}" for i in range(400)]
NUMBERS = [i * i - 1000 for i in range(400)]
HASHES = [(i * 0x9E3779B97F4A7C15F39CC0605CEDC835 + 12345) % 2**128 for i in range(400)]
#: Every file, its format, and keys of it as Python has them.
FILES = [
    ("spark-v1.bin", "spark_v1", TEXTS + NUMBERS),
    ("spark-v2.bin", "spark_v2", TEXTS + NUMBERS),
    ("guava-int64.bin", "guava", NUMBERS),
    ("guava-utf8.bin", "guava", TEXTS),
    ("guava-int32.bin", "guava", [i.to_bytes(4, "little", signed=True) for i in NUMBERS]),
    ("guava-utf16.bin", "guava", [text.encode("utf-16-le") for text in TEXTS]),
    ("fuse8-text.bin", "fuse8", TEXTS),
    ("fuse16-uint64.bin", "fuse16", NUMBERS),
    ("rbloom.bin", "rbloom", [i.to_bytes(16, "little") for i in HASHES]),
    ("dcso.bin", "dcso", TEXTS),
    ("datasketches.bin", "datasketches", TEXTS + NUMBERS),
    ("bloomfilter-bytes.bin", "bloomfilter", TEXTS),
    ("bloomfilter-str.bin", "bloomfilter", NUMBERS),
]
FORMATS = [
    "parquet", "spark_v1", "spark_v2", "guava", "fuse8", "fuse16", "rbloom", "dcso", "datasketches",
    "redisbloom", "bloomfilter",
]


@pytest.mark.parametrize(("name", "format", "keys"), FILES, ids=lambda value: str(value)[:24])
def test_files_of_the_programs(name, format, keys):
    path = FOREIGN / name
    data = path.read_bytes()
    stated = None if format != "rbloom" else format
    for ours in (
        tamis.import_filter(path, format),
        tamis.import_filter(str(path), stated),
        tamis.import_filter(data, format),
        tamis.import_filter(bytearray(data), format=stated),
        tamis.import_filter(memoryview(data), stated),
    ):
        assert isinstance(ours, tamis.Filter) and ours.kind.startswith("foreign_")
        assert all(key in ours for key in keys)
        assert ours.contains(keys).all()
        assert ours.export(format) == data
    again = pickle.loads(pickle.dumps(ours))
    assert again == ours and again.export(format) == data
    others = sum(f"other {i}" in ours for i in range(10_000))
    assert others < 500


@pytest.mark.parametrize("format", FORMATS)
def test_built_as_the_program_does(format):
    keys = np.arange(2000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ours = tamis.build(keys, 0.004, format=format)
    data = ours.export(format)
    again = tamis.import_filter(data, format)
    assert again.contains(keys).all() and again.export(format) == data
    assert tamis.build(iter(keys.tolist()), 0.004, format=format).export(format) == data
    others = again.contains(keys + np.uint64(1)).sum()
    assert others < 40
    if "insert" in ours.capabilities:
        larger = tamis.build(keys[:10], 0.004, format=format, capacity=2000)
        larger.update(keys)
        assert larger.contains(keys).all() and len(larger.export(format)) == len(data)


def test_the_file_of_a_mapped_filter_does_not_change(tmp_path):
    path = tmp_path / "seen.bin"
    data = (FOREIGN / "dcso.bin").read_bytes()
    path.write_bytes(data)
    mapped = tamis.import_filter(path, "dcso")
    mapped.add("one more")
    assert "one more" in mapped and path.read_bytes() == data


def test_errors():
    data = (FOREIGN / "guava-utf8.bin").read_bytes()
    with pytest.raises(tamis.CorruptError, match="not a guava filter: it is truncated"):
        tamis.import_filter(data[:-1], "guava")
    with pytest.raises(tamis.InvalidInputError, match="not recognised; if it is one of these"):
        tamis.import_filter(data[:-1])
    with pytest.raises(tamis.InvalidInputError, match="no format `java`; known are parquet, spark_v1"):
        tamis.import_filter(data, "java")
    with pytest.raises(FileNotFoundError) as raised:
        tamis.import_filter("/none/such", "guava")
    assert raised.value.filename == "/none/such"
    with pytest.raises(FileNotFoundError):
        tamis.import_filter(pathlib.Path("/none/such"))
    with pytest.raises(TypeError):
        tamis.import_filter(7)
    ours = tamis.import_filter(data)
    with pytest.raises(tamis.MismatchError, match="hashed by guava_murmur3 and not by spark_murmur3"):
        ours.export("spark_v2")
    with pytest.raises(tamis.MismatchError, match="hashed by fast"):
        tamis.build(TEXTS).export("guava")
    with pytest.raises(tamis.InvalidInputError, match="kind follows from the format"):
        tamis.build(TEXTS, kind="bloom", format="guava")
    with pytest.raises(tamis.InvalidInputError, match="seed follows from the format"):
        tamis.build(TEXTS, seed=1, format="guava")
    with pytest.raises(tamis.TamisError, match="1/256"):
        tamis.build(TEXTS, 0.001, format="fuse8")
    with pytest.raises(tamis.InvalidInputError):
        tamis.build(TEXTS, float("nan"), format="guava")


def test_stubs_list_all_formats():
    with pytest.raises(tamis.InvalidInputError) as raised:
        tamis.import_filter(b"", "none")
    known = str(raised.value).split("known are ")[1].split(", ")
    stub = (ROOT / "bindings/python/python/tamis/_tamis.pyi").read_text("utf-8")
    listed = re.search(r"_Format: TypeAlias = Literal\[(.*?)\]", stub, re.S)
    assert listed and re.findall(r'"(\w+)"', listed[1]) == known == FORMATS
