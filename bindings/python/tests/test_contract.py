"""Every language answers alike: testdata/contract/README.md describes the file."""

import json

import pytest
from conftest import ROOT

import tamis

CONTRACT = json.loads((ROOT / "testdata/contract/contract.json").read_text("utf-8"))


def key_of(key):
    if "text" in key:
        return key["text"]
    return bytes.fromhex(key["bytes"]) if "bytes" in key else int(key["integer"])


KEYS = [key_of(key) for key in CONTRACT["keys"]]


@pytest.mark.parametrize("entry", CONTRACT["filters"], ids=lambda entry: entry["path"])
def test_answers(entry):
    path = ROOT / "testdata" / entry["path"]
    for ours in (tamis.open(path, verify=True), tamis.from_bytes(path.read_bytes())):
        assert ours.kind == entry["kind"] and len(ours) == entry["len"]
        assert "".join("01"[key in ours] for key in KEYS) == entry["contains"]
        if "build" in entry:
            assert "".join("01"[int(found)] for found in ours.contains(KEYS)) == entry["contains"]
        if "counts" in entry:
            assert [ours.count(key) for key in KEYS] == entry["counts"]
        if "values" in entry:
            assert [ours.get(key) for key in KEYS] == entry["values"]
        assert ours.to_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "entry", [entry for entry in CONTRACT["filters"] if "build" in entry], ids=lambda entry: entry["path"]
)
def test_builds(entry):
    recipe = entry["build"]
    options = {"hash": recipe["hash"], "seed": int(recipe["seed"], 16), "fpr": recipe["fpr"]}
    if "values" in recipe:
        ours = tamis.Map({key: index for index, key in enumerate(KEYS) if index % 2 == 0}, **options)
    else:
        capacity = recipe.get("capacity")
        ours = tamis.build(KEYS[::2], kind=entry["kind"], capacity=capacity, **options)
    assert ours.to_bytes() == (ROOT / "testdata" / entry["path"]).read_bytes()
