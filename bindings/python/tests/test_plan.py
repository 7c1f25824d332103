"""plan and kinds."""

import pytest
from conftest import KINDS

import tamis


def test_plan():
    ranked = tamis.plan(keys=1e6, fpr=0.001, needs=["remove"])
    assert len(ranked) > 2 and all("remove" in advice.capabilities for advice in ranked)
    assert all(advice.fpr <= 0.00101 and advice.keys == 10**6 for advice in ranked)
    assert ranked[0].merits
    assert all(advice.bits_per_key > 9 for advice in ranked)
    html = ranked._repr_html_()
    assert html.count("<tr>") == len(ranked) + 1 and ranked[0].kind in html


def test_two_of_three():
    assert all(advice.nbytes <= 10**6 for advice in tamis.plan(keys=10**6, nbytes=10**6))
    # `exact` takes 20 bytes per key.
    assert all(advice.keys >= 49_000 for advice in tamis.plan(fpr=0.01, nbytes=10**6))
    assert all("grow" in advice.capabilities for advice in tamis.plan(fpr=0.01))
    assert tamis.plan(keys=1000)[0].fpr <= 0.0101
    assert tamis.plan(keys=1000, needs=["insert"], distinct=True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"keys": 10, "fpr": 0.1, "nbytes": 10},
        {"nbytes": 10},
        {"keys": float("nan")},
        {"keys": 10, "fpr": float("nan")},
        {"keys": 10, "needs": ["fly"]},
        {"keys": 10, "needs": ["static", "insert"]},
    ],
)
def test_bad_arguments(arguments):
    with pytest.raises(tamis.InvalidInputError):
        tamis.plan(**arguments)


def test_kinds():
    assert len(KINDS) >= 26
    assert "merge" in KINDS["bloom"].capabilities and "1970" in KINDS["bloom"].paper
    assert "k" in KINDS["bloom"].settings
