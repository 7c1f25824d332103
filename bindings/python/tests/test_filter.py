"""The class Filter: the conventions of a set, and a model of it."""

import copy
import operator

import numpy as np
import pytest
from conftest import INSERTING, KINDS, MERGING, REMOVING, STATIC
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis

KEYS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
    st.integers(-(2**63), 2**64 - 1),
)


def test_example_of_the_package():
    seen = tamis.Filter(capacity=1_000_000, fpr=0.01)
    seen.add("apple")
    assert "apple" in seen
    assert len(seen) == 1
    seen.update(["pear", "plum"])
    assert "plum" in seen and "pear" in seen
    assert "cherry" not in seen


@pytest.mark.parametrize("kind", INSERTING)
@settings(max_examples=25, deadline=None)
@given(keys=st.sets(KEYS, max_size=40), others=st.sets(KEYS, max_size=40))
def test_never_denies_a_member(kind, keys, others):
    one_by_one = tamis.Filter(100, kind=kind, seed=1)
    for key in keys:
        one_by_one.add(key)
    at_once = tamis.Filter(100, kind=kind, seed=1)
    at_once.update(keys)
    assert all(key in one_by_one and key in at_once for key in keys)
    for key in keys | others:
        assert (key in one_by_one) == (key in at_once)
        assert at_once.contains([key])[0] == (key in at_once)


@pytest.mark.parametrize("kind", REMOVING)
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=60))
def test_agrees_with_a_set(kind, steps):
    model: set[int] = set()
    ours = tamis.Filter(100, 0.001, kind=kind, seed=1)
    for add, key in steps:
        if add and key not in model:
            model.add(key)
            ours.add(key)
        elif not add and key in model:
            model.remove(key)
            ours.remove(key)
    assert all(key in ours for key in model)
    assert len(ours) == len(model)
    assert bool(ours) == bool(model)


@pytest.mark.parametrize("kind", INSERTING)
def test_rate(kind):
    members = np.arange(20_000, dtype=np.uint64)
    ours = tamis.Filter(20_000, 0.01, kind=kind)
    ours.update(members)
    assert ours.contains(members).all()
    strangers = np.arange(10**9, 10**9 + 50_000)
    assert ours.contains(strangers).mean() < 0.015


def test_best_kind():
    assert "remove" in tamis.Filter(1000, needs=["remove"]).capabilities
    assert "grow" in tamis.Filter(fpr=0.01).capabilities
    assert tamis.Filter(1000, kind="cuckoo").kind == "cuckoo"
    assert tamis.Filter(1e3).capacity == 1000


def test_a_filter_grows():
    ours = tamis.Filter(fpr=0.001)
    ours.update(range(100_000))
    assert ours.contains(range(100_000)).all()


def test_sizes():
    assert tamis.Filter(1000, nbytes=4096).nbytes <= 4096
    assert tamis.Filter(1000, bits_per_key=12).nbytes <= 1500
    assert tamis.Filter(10_000, kind="cuckoo", settings={"f": 12}).fpr < 0.005
    assert tamis.Filter(10_000, kind="bloom", settings={"k": 3}).parameters["k"] == 3


def test_new_keys():
    ours = tamis.Filter(1000, 1e-6, seed=1)
    assert ours.add_new("a") and not ours.add_new("a")
    assert ours.update_new(["a", "b", None, "b"]).tolist() == [False, True, False, False]


def test_counts():
    ours = tamis.Filter(1000, 1e-6, kind="counting_quotient", seed=1)
    ours.update(["a", "b", "a", "a"])
    assert ours.count("a") == 3 and ours.count("c") == 0
    counts = ours.counts(["a", "b", None, "c"])
    assert counts.dtype == np.uint64 and counts.tolist() == [3, 1, 0, 0]


def test_removing():
    ours = tamis.Filter(1000, 1e-6, kind="cuckoo", seed=1)
    ours.update(["a", "b", "c"])
    ours.remove("a")
    assert "a" not in ours
    with pytest.raises(KeyError, match="a"):
        ours.remove("a")
    assert ours.discard("b") is True and ours.discard("b") is False
    assert ours.difference_update(["c", None, "d"]).tolist() == [True, False, False]
    assert len(ours) == 0 and not ours


@pytest.mark.parametrize("kind", MERGING)
def test_union(kind):
    a = tamis.Filter(1000, 1e-6, kind=kind, seed=7)
    b = a.empty_like()
    a.update(range(100))
    b.update(range(50, 150))
    both = a | b
    assert both.contains(range(150)).all()
    assert len(a) == 100 and not a.contains(range(120, 150)).any()
    a |= b
    assert a == both
    a |= a
    assert a.contains(range(150)).all()


def test_intersection_and_similarity():
    a = tamis.Filter(1000, 1e-6, kind="bloom", seed=7)
    b = a.empty_like()
    a.update(range(100))
    b.update(range(50, 150))
    both = a & b
    assert both.contains(range(50, 100)).all() and not both.contains(range(100, 150)).any()
    assert 0.3 < a.similarity(b) < 0.8 and a.similarity(a) == pytest.approx(1)
    assert a.cardinality() == pytest.approx(100, abs=5)
    a &= b
    assert a == both
    assert a.contains(range(50, 100)).all()


def test_unlike_filters():
    a = tamis.Filter(1000, kind="bloom", seed=1)
    with pytest.raises(tamis.MismatchError, match="seed"):
        a | tamis.Filter(1000, kind="bloom", seed=2)
    with pytest.raises(tamis.MismatchError, match="shape"):
        a |= tamis.Filter(2000, kind="bloom", seed=1)
    with pytest.raises(tamis.MismatchError, match="kind"):
        a & tamis.Filter(1000, kind="split_block_bloom", seed=1)
    with pytest.raises(tamis.UnsupportedError, match="cuckoo does not support merge"):
        b = tamis.Filter(1000, kind="cuckoo", seed=1)
        b | b
    with pytest.raises(tamis.MismatchError, match="hash"):
        a.similarity(tamis.Filter(1000, kind="bloom", seed=1, hash="secure"))
    for other in ({"a"}, tamis.Map({1: 1}), tamis.Window(10), None):
        for combine in (operator.or_, operator.and_, operator.ior, operator.iand):
            with pytest.raises(TypeError):
                combine(a, other)
        with pytest.raises(TypeError):
            a.similarity(other)
    assert a == tamis.Filter(1000, kind="bloom", seed=1)


def test_equality_and_copies():
    a = tamis.Filter(1000, seed=1)
    a.add("a")
    for b in (a.copy(), copy.copy(a), copy.deepcopy(a)):
        assert b == a and b is not a and type(b) is tamis.Filter
        b.add("b")
        assert b != a and "b" not in a
    assert a != {"a"}
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_clear():
    a = tamis.Filter(1000, seed=1)
    a.update(range(100))
    a.clear()
    assert a == tamis.Filter(1000, seed=1) and len(a) == 0


def test_full():
    ours = tamis.Filter(100, kind="cuckoo", seed=1)
    with pytest.raises(tamis.FullError, match="inserted"):
        ours.update(range(100_000))
    assert ours.contains(range(50)).all()
    ours = tamis.Filter(100, kind="cuckoo", seed=1)
    with pytest.raises(tamis.FullError):
        ours.update(np.arange(100_000))
    assert ours.contains(np.arange(50)).all()


@pytest.mark.parametrize("kind", [*STATIC, "sliding"])
def test_static_kinds_are_built(kind):
    with pytest.raises(tamis.UnsupportedError, match=f"{kind} does not support insert"):
        tamis.Filter(100, kind=kind)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"fpr": float("nan")}, "false positive rate"),
        ({"fpr": 0, "kind": "bloom"}, "false positive rate"),
        ({"fpr": 1.5}, "false positive rate"),
        ({"capacity": 1e300}, "whole number"),
        ({"capacity": 2**60}, "at most"),
        ({"capacity": -1}, "whole number"),
        ({"capacity": 1.5}, "whole number"),
        ({"kind": "blom"}, "no filter named blom"),
        ({"needs": ["fly"]}, "no capability named fly"),
        ({"hash": "md5"}, "no hash named md5"),
        ({"fpr": 0.1, "nbytes": 100}, "one of fpr, nbytes and bits_per_key"),
        ({"nbytes": 1}, "too small"),
        ({"nbytes": float("nan")}, "whole number"),
        ({"bits_per_key": float("nan")}, "bits_per_key must be a number above 0, not NaN"),
        ({"bits_per_key": float("inf")}, "bits_per_key must be"),
        ({"bits_per_key": -3}, "bits_per_key must be"),
        ({"kind": "bloom", "settings": {"q": 1}}, "invalid setting q=1"),
        ({"kind": "bloom", "settings": {"k": "many"}}, "invalid setting k=many"),
    ],
)
def test_bad_arguments(arguments, error):
    with pytest.raises(tamis.InvalidInputError, match=error) as raised:
        tamis.Filter(**{"capacity": 1000, **arguments})
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, tamis.TamisError)


def test_wrong_types_of_arguments():
    with pytest.raises(TypeError, match="not str"):
        tamis.Filter("1000")
    with pytest.raises(TypeError):
        tamis.Filter(1000, kind=7)
    with pytest.raises(TypeError):
        tamis.AnyFilter()


def test_repr():
    ours = tamis.Filter(1000, kind="bloom")
    ours.add("a")
    assert repr(ours).startswith("<tamis.Filter bloom: 1 of 1000 keys, ")
    html = ours._repr_html_()
    assert "<svg" in html and "bloom" in html


def test_properties():
    ours = tamis.Filter(1000, kind="bloom", hash="secure", seed=2**127 + 5)
    assert (ours.kind, ours.hash, ours.seed) == ("bloom", "secure", 2**127 + 5)
    assert ours.capabilities == KINDS["bloom"].capabilities
    assert ours.parameters["k"] >= 1
    assert ours.fpr == 0
    ours.update(range(1000))
    assert 0.005 < ours.fpr <= 0.0101
