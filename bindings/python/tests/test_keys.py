"""Keys: which types are keys, which keys are equal, and columns of them."""

import array
import datetime
import enum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tamis

TEXTS = ["apple", "", "é", "漢字", "🍎", "a" * 300]
INTS = [0, 1, -1, 2**63 - 1, -(2**63), 255, -128]


def filled(keys):
    ours = tamis.Filter(10_000, 1e-9, kind="counting_quotient", seed=3)
    for key in keys:
        ours.add(key)
    return ours


def test_text_and_bytes_are_one_key():
    assert "é".encode() in filled(["é"])
    assert "é" in filled(["é".encode()])
    assert bytearray(b"a") in filled(["a"]) and memoryview(b"a") in filled(["a"])
    assert np.str_("a") in filled(["a"]) and np.bytes_(b"a") in filled(["a"])


def test_keys_of_subclasses():
    class Text(str):
        pass

    class Data(bytes):
        pass

    class Number(int):
        def __index__(self) -> int:
            return 8

    assert Text("é") in filled(["é"]) and Data(b"a") in filled(["a"])
    assert Number(7) in filled([7]) and Number(7) not in filled([8])
    assert enum.IntEnum("Sort", ["APPLE"]).APPLE in filled([1])


def test_text_and_integers_differ():
    assert 7 not in filled(["7"]) and "7" not in filled([7])
    assert (7).to_bytes(8, "little") not in filled([7])


def test_integers_are_64_bits():
    assert 2**64 - 1 in filled([-1])
    assert np.int8(-1) in filled([-1]) and np.uint64(2**64 - 1) in filled([-1])
    for key in (2**64, -(2**63) - 1, 10**40):
        with pytest.raises(OverflowError, match="2\\*\\*63"):
            key in filled([])  # noqa: B015
        with pytest.raises(OverflowError):
            filled([]).add(key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (True, "not bool: True and 1"),
        (1.0, "not float: floats"),
        (np.float64(1), "not float64"),
        (np.bool_(True), "not bool"),
        (None, "not NoneType"),
        (("a", 1), "not tuple"),
        (datetime.date(2026, 1, 1), "not date"),
    ],
)
def test_no_keys(key, reason):
    ours = filled(["a"])
    with pytest.raises(TypeError, match=reason):
        key in ours  # noqa: B015
    with pytest.raises(TypeError, match=reason):
        ours.add(key)
    if key is not None:
        with pytest.raises(TypeError, match=reason):
            ours.contains(["a", key])
        with pytest.raises(TypeError, match=reason):
            ours.update(["b", key])
        assert "b" in ours


def test_surrogates():
    with pytest.raises(UnicodeEncodeError):
        "\ud800" in filled(["a"])  # noqa: B015
    with pytest.raises(TypeError, match="surrogate"):
        filled(["a"]).contains(np.array(["\ud800"]))


def text_columns():
    return [
        TEXTS,
        tuple(TEXTS),
        (text for text in TEXTS),
        dict.fromkeys(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        np.array([text.encode() for text in TEXTS]),
        np.array(["x", *TEXTS], dtype=f"U{400}")[1:][::-1][::-1],
        np.array(TEXTS).astype(np.array(TEXTS).dtype.newbyteorder(">")),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array([text.encode() for text in TEXTS], pa.binary()),
        pa.array([text.encode() for text in TEXTS], pa.large_binary()),
        pa.array([text.encode() for text in TEXTS], pa.binary_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(["x", *TEXTS, "y"]).slice(1, len(TEXTS)),
        pa.chunked_array([TEXTS[:2], [], TEXTS[2:]], type=pa.string()),
        pa.table({"key": TEXTS}),
        pa.record_batch({"key": TEXTS}),
        pl.Series(TEXTS),
        pl.Series(TEXTS, dtype=pl.Categorical),
        pl.DataFrame({"key": TEXTS}),
        pd.Series(TEXTS),
        pd.Series(TEXTS, dtype="string"),
        pd.Series(TEXTS, dtype="category"),
        pd.Index(TEXTS),
    ] + ([np.array(TEXTS, dtype=np.dtypes.StringDType())] if hasattr(np.dtypes, "StringDType") else [])


def int_columns():
    wide = np.array(INTS, dtype=np.int64)
    return [
        INTS,
        array.array("q", INTS),
        wide,
        wide.view(np.uint64),
        wide.astype(">i8"),
        np.repeat(wide, 2)[::2],
        np.frombuffer(b"x" + wide.tobytes(), dtype=np.int64, offset=1),
        pa.array(INTS),
        pa.chunked_array([INTS[:3], INTS[3:]]),
        pl.Series(INTS),
        pd.Series(INTS),
        pd.Series(INTS, dtype="Int64"),
        pd.Series(INTS, dtype="int64[pyarrow]"),
    ]


@pytest.mark.parametrize("index", range(len(text_columns())))
def test_columns_of_text(index):
    column = text_columns()[index]
    ours = filled(TEXTS)
    assert ours.contains(column).all()
    other = filled([])
    other.update(text_columns()[index])
    assert other == ours
    assert not filled([]).contains(text_columns()[index]).any()


@pytest.mark.parametrize("index", range(len(int_columns())))
def test_columns_of_integers(index):
    column = int_columns()[index]
    ours = filled(INTS)
    assert ours.contains(column).all()
    other = filled([])
    other.update(column)
    assert other == ours


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_widths(dtype):
    limits = np.iinfo(dtype)
    values = [limits.min, 0, 1, limits.max]
    ours = filled(values)
    for column in (np.array(values, dtype), pa.array(np.array(values, dtype)), pl.Series(np.array(values, dtype))):
        assert ours.contains(column).all() and len(column) == 4


def test_nulls_are_absent():
    ours = filled(["a", "b", ""])
    expected = [True, False, True, False]
    keys = ["a", None, "b", None]
    assert ours.contains(keys).tolist() == expected
    assert ours.contains(pa.array(keys)).tolist() == expected
    assert ours.contains(pa.array(keys).dictionary_encode()).tolist() == expected
    assert ours.contains(pl.Series(keys)).tolist() == expected
    assert ours.contains(pd.Series(keys)).tolist() == expected
    assert ours.contains(pd.Series(["a", float("nan"), "b", pd.NA])).tolist() == expected
    for nulls in (pa.nulls(4), pl.Series([None] * 4), pl.DataFrame({"a": [None] * 4}), [None] * 4):
        assert ours.contains(nulls).tolist() == [False] * 4
    for column in (keys, pa.array(keys), pl.Series(keys), iter(keys)):
        other = tamis.Filter(100, 1e-9, kind="counting_quotient")
        other.update(column)
        assert len(other) == 2
    static = tamis.build(pa.array([1, None, 3]))
    assert len(static) == 2 and len(tamis.build([None, "a", None])) == 1


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.0]),
        np.array([True]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.array([[1, 2]]),
        np.array(7),
        pa.array([1.0]),
        pa.array([True]),
        pa.array([datetime.date(2026, 1, 1)]),
        pa.array([["a"]]),
        pa.table({"a": ["x"], "b": ["y"]}),
        pl.Series([1.5]),
        pd.Series([1.5]),
        "text",
        b"bytes",
        7,
        None,
        ["a", 1.5],
        [["a"]],
    ],
)
def test_no_columns(column):
    ours = filled(["a"])
    for call in (ours.contains, ours.update, tamis.build):
        with pytest.raises(TypeError):
            call(column)


def test_columns_of_the_wrong_form():
    with pytest.raises(tamis.MismatchError, match="text or bytes, but .* integers"):
        filled(["a"]).contains(np.arange(10))
    with pytest.raises(tamis.MismatchError, match="integers, but .* text"):
        filled([1]).contains(pa.array(["a"]))
    assert filled([1]).contains(["a", 1]).tolist() == [False, True]
    mixed = filled(["a", 1])
    assert mixed.contains(["a", 1, "b", 2]).tolist() == [True, True, False, False]


def test_empty_columns():
    ours = filled(["a"])
    columns = [[], np.array([], dtype="i8"), np.array([], dtype="U4"), pa.array([], pa.string()), pa.nulls(0)]
    columns += [pa.table({"a": pa.array([], pa.string())}), pa.chunked_array([], pa.string()), pd.Series([])]
    columns += [pl.Series([]), pl.Series([], dtype=pl.String), pl.DataFrame({"a": []}), iter(())]
    for column in columns:
        assert ours.contains(column).tolist() == []
        ours.update(column)
        assert len(tamis.build(column)) == 0
    ours.update([])
    assert len(ours) == 1


def test_an_iterator_may_use_the_filter():
    ours = tamis.Filter(100_000, 1e-9, seed=1)
    ours.update(key for key in [*range(20_000), *range(20_000)] if key not in ours)
    assert 20_000 <= len(ours) <= 40_000 and ours.contains(range(20_000)).all()


def test_an_iterator_may_fail():
    def keys():
        yield "a"
        raise RuntimeError("the source is gone")

    ours = filled([])
    with pytest.raises(RuntimeError, match="the source is gone"):
        ours.update(keys())
    assert "a" in ours
    with pytest.raises(RuntimeError, match="the source is gone"):
        tamis.build(keys())


def test_large_columns_use_several_threads():
    keys = np.random.default_rng(1).integers(0, 2**63, 300_000)
    ours = tamis.build(keys, seed=1)
    probe = np.concatenate([keys, keys + 2**62])
    one = ours.contains(probe, threads=1)
    assert one[: len(keys)].all()
    for column in (probe, pa.array(probe), pa.chunked_array([probe[:7], probe[7:200_001], probe[200_001:]])):
        assert (ours.contains(column) == one).all()
        assert (ours.contains(column, threads=3) == one).all()
