"""The classes Map and Window, and uniq."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.one_of(st.text(max_size=8).filter(str.isprintable), st.integers(0, 2**63)), st.integers(0, 2**40)))
def test_every_key_has_its_value(entries):
    ours = tamis.Map(entries, 1e-6)
    assert len(ours) == len(entries)
    for key, value in entries.items():
        assert key in ours and ours[key] == value and ours.get(key) == value


def test_values():
    ours = tamis.Map([("a", 3), ("b", 70)], 1e-6, seed=1)
    ours["a"] = 4
    assert ours["a"] == 4 and ours.value_bits == 7
    with pytest.raises(KeyError, match="c"):
        ours["c"]
    with pytest.raises(KeyError):
        ours["c"] = 1
    with pytest.raises(tamis.InvalidInputError, match="does not fit"):
        ours["a"] = 1000
    with pytest.raises((tamis.InvalidInputError, TypeError)):
        ours["a"] = -1
    assert ours.get("c") is None and ours.get("c", 5) == 5
    values = ours.lookup(["a", None, "b", "c"], 9)
    assert values.dtype == np.uint64 and values.tolist() == [4, 0, 70, 9]
    with pytest.raises(tamis.UnsupportedError):
        ours | ours if hasattr(ours, "__or__") else tamis.Filter(1, kind="bloomier")


def test_columns_of_entries():
    keys, values = np.arange(1000), np.arange(1000) * 3
    for entries in ((keys, values), (pa.array(keys), values.tolist())):
        ours = tamis.Map(entries, 1e-6)
        assert (ours.lookup(keys) == values).all()
    with pytest.raises(TypeError, match="2 keys, but 1 values"):
        tamis.Map((["a", "b"], [1]))
    with pytest.raises(TypeError, match="null"):
        tamis.Map((["a", None], [1, 2]))


def test_conflicting_values():
    with pytest.raises(tamis.ConflictError, match="two values"):
        tamis.Map([("a", 1), ("a", 2)])
    assert len(tamis.Map([("a", 1), ("a", 1)])) == 1
    with pytest.raises(TypeError):
        tamis.Map({1.5: 1})


def reopened(ours, tmp_path):
    ours.save(tmp_path / "map.tamis")
    return tamis.open(tmp_path / "map.tamis")


def test_integers_of_any_sign(tmp_path):
    entries = {"a": -7, "b": 0, "c": np.int8(100), "d": 5.0}
    for ours in (first := tamis.Map(entries, 1e-6, seed=1), reopened(first, tmp_path)):
        assert [ours[key] for key in entries] == [-7, 0, 100, 5]
        ours["a"] = 3
        assert ours["a"] == 3 and type(ours["a"]) is int
        values = ours.lookup(["b", None, "z", "c"], -1)
        assert values.dtype == np.int64 and values.tolist() == [0, 0, -1, 100]
        with pytest.raises(tamis.InvalidInputError, match="integers from -7"):
            ours["a"] = 10**6
        with pytest.raises(tamis.InvalidInputError, match="integers from -7"):
            ours["a"] = "red"
    ends = {"min": -(2**63), "max": 2**63 - 1}
    assert all(tamis.Map(ends, 1e-6)[key] == value for key, value in ends.items())
    assert tamis.Map({"max": 2**64 - 1}, 1e-6)["max"] == 2**64 - 1
    wide = tamis.Map({"a": -1, "b": 2**64 - 2}, 1e-6, seed=1).lookup(["a", "b", "z"])
    assert wide.dtype == object and wide.tolist() == [-1, 2**64 - 2, None]
    for values in ([-1, 2**64 - 1], [2**64], [-(2**63) - 1], [10**60]):
        with pytest.raises(tamis.InvalidInputError, match="2\\^64"):
            tamis.Map({key: value for key, value in enumerate(values)})


@pytest.mark.parametrize("kind", [str, bytes])
def test_byte_strings(tmp_path, kind):
    texts = {"apple": "red", "pear": "grün", "plum": "", "cherry": "red"}
    entries = texts if kind is str else {key: text.encode() for key, text in texts.items()}
    columns = (list(entries), list(entries.values()))
    for source in (entries, list(entries.items()), columns):
        built = tamis.Map(source, 1e-6, seed=1)
        for ours in (built, reopened(built, tmp_path)):
            assert {key: ours[key].decode() for key in texts} == texts
            assert ours.get("stone") is None and ours.get("stone", "x") == "x"
            found = ours.lookup(["plum", None, "apple", "stone"])
            assert found.dtype == object and found.tolist() == [b"", None, b"red", None]
            assert ours.lookup(["stone"], b"?").tolist() == [b"?"]
            ours["plum"] = entries["pear"]
            assert ours["plum"] == "grün".encode()
            ours["plum"] = ""
            with pytest.raises(tamis.InvalidInputError, match="3 distinct byte strings"):
                ours["plum"] = "blue"


def test_values_are_of_one_type():
    for values, types in (([1, "a"], "int and str"), ([b"a", "a"], "bytes and str"), (["a", -1], "str and int")):
        for entries in (dict(enumerate(values)), (list(range(2)), values)):
            with pytest.raises(TypeError, match=f"all bytes, but these are {types}"):
                tamis.Map(entries)
    for value in (None, True, [], bytearray(b"a")):
        with pytest.raises(TypeError, match="a value is int, str or bytes, not"):
            tamis.Map({"a": value})
    with pytest.raises(tamis.InvalidInputError, match="whole number"):
        tamis.Map({"a": 1.5})


def test_window():
    recent = tamis.Window(100, fpr=1e-6, seed=1)
    assert recent.push("a") is False and recent.push("a") is True and "a" in recent
    seen = recent.update([f"key {key}" for key in range(1000)])
    assert not seen.any() and "a" not in recent
    assert recent.contains([f"key {key}" for key in range(900, 1000)]).all()
    assert not recent.contains([f"key {key}" for key in range(100)]).any()
    assert recent.window == 100 and recent.slack > 0
    assert recent.update(["x", None, "x"]).tolist() == [False, False, True]


def test_uniq():
    items = ["a", "b", "a", "c", "b"]
    assert list(tamis.uniq(items)) == ["a", "b", "c"]
    assert list(tamis.uniq(iter(items), capacity=10)) == ["a", "b", "c"]
    rows = [{"id": 1}, {"id": 2}, {"id": 1}]
    assert list(tamis.uniq(rows, key=lambda row: row["id"])) == rows[:2]
    seen = tamis.Filter(100, 1e-9)
    seen.add("a")
    assert list(tamis.uniq(items, seen=seen)) == ["b", "c"] and "c" in seen
    with pytest.raises(TypeError, match="not float"):
        list(tamis.uniq([1.5]))
    numbers = list(range(50_000)) * 2
    assert len(list(tamis.uniq(numbers))) > 49_990
