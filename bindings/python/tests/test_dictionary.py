"""The class Dictionary: exact, over redb, fjall and memory."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis

PATHS = ["stock.redb", "stock", None]


@pytest.fixture(params=PATHS)
def path(request, tmp_path):
    return None if request.param is None else tmp_path / request.param


@pytest.mark.parametrize("layout", ["clustered", "secondary"])
def test_conventions_of_a_dict(path, layout):
    with tamis.Dictionary(path, capacity=10_000, layout=layout) as stock:
        stock["apple"] = "3"
        stock[b"pear"] = b"\xff"
        assert stock["apple"] == b"3" and stock["pear"] == b"\xff"
        assert "apple" in stock and "plum" not in stock and len(stock) == 2
        assert stock.get("plum") is None and stock.get("plum", 7) == 7
        with pytest.raises(KeyError, match="plum"):
            stock["plum"]
        del stock["apple"]
        with pytest.raises(KeyError):
            del stock["apple"]
        stock.update({f"key {key}": f"{key}" for key in range(2000)})
        stock.update([("a", "b")])
        assert len(stock) == 2002
        assert dict(stock.items())[b"key 7"] == b"7"
        assert sorted(stock) == sorted(stock.keys()) and len(set(stock)) == 2002
        assert len(list(stock.values())) == 2002
        assert stock.verify() == 2002
        assert stock.stats()["puts"] >= 2002
    assert repr(stock).endswith("closed>")
    with pytest.raises(ValueError, match="closed"):
        stock["a"]
    stock.close()


def test_closed():
    stock = tamis.Dictionary()
    stock.update({f"key {key}": "value" for key in range(10)})
    items = iter(stock.items())
    next(items)
    stock.close()
    calls = [lambda: len(stock), lambda: "a" in stock, lambda: stock.get("a"), lambda: stock.update({"a": "b"})]
    calls += [lambda: list(stock), lambda: list(stock.items()), lambda: list(stock.keys()), lambda: list(stock.values())]
    calls += [lambda: stock.__setitem__("a", "b"), lambda: stock.__delitem__("a"), stock.verify, stock.stats]
    for call in [*calls, lambda: list(items)]:
        with pytest.raises(ValueError, match="the dictionary is closed"):
            call()
    assert repr(stock).endswith("closed>")


def test_opens_again(tmp_path):
    path = tmp_path / "stock.redb"
    with tamis.Dictionary(path) as stock:
        stock["apple"] = "3"
    with tamis.Dictionary(str(path)) as stock:
        assert stock["apple"] == b"3"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=3), st.binary(max_size=5)), max_size=40))
def test_agrees_with_a_dict(steps):
    model: dict[bytes, bytes] = {}
    with tamis.Dictionary(capacity=1000) as ours:
        for put, key, value in steps:
            if put:
                model[key] = ours[key] = value
            else:
                assert (key in ours) == (key in model)
                if key in model:
                    del ours[key], model[key]
        assert dict(ours.items()) == model


def test_wrong_types(tmp_path):
    with tamis.Dictionary() as stock:
        with pytest.raises(TypeError, match="key of a dictionary is str or bytes, not int"):
            stock[7] = "a"
        with pytest.raises(TypeError, match="value of a dictionary is str or bytes, not int"):
            stock["a"] = 7
    with pytest.raises(tamis.InvalidInputError, match="layout"):
        tamis.Dictionary(layout="round")
    with pytest.raises(tamis.InvalidInputError, match="rate"):
        tamis.Dictionary(fpr=float("nan"))
    other = tmp_path / "other.redb"
    other.write_bytes(b"something else" * 1000)
    with pytest.raises((tamis.TamisError, OSError)):
        tamis.Dictionary(other)
    assert other.read_bytes() == b"something else" * 1000


def test_one_process_has_it_open(tmp_path):
    path = tmp_path / "stock.redb"
    with tamis.Dictionary(path) as stock:
        stock["a"] = "b"
        program = f"import tamis\ntry: tamis.Dictionary({str(path)!r})\nexcept tamis.InUseError: print('in use')"
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert result.stdout == "in use\n", result.stderr
