"""Every language answers alike: testdata/contract/README.md describes the file.

Items of Redis are bytes, so the integers of the contract are left out.
"""

import json
from pathlib import Path

import pytest

TESTDATA = Path(__file__).resolve().parents[3] / "testdata"
CONTRACT = json.loads((TESTDATA / "contract/contract.json").read_text("utf-8"))
ITEMS = {
    index: key["text"].encode() if "text" in key else bytes.fromhex(key["bytes"])
    for index, key in enumerate(CONTRACT["keys"])
    if "integer" not in key
}


def answers(client, command, key):
    return client.execute_command(command, key, *ITEMS.values())


@pytest.mark.parametrize("entry", CONTRACT["filters"], ids=lambda entry: entry["path"])
def test_answers(r, entry):
    data = (TESTDATA / entry["path"]).read_bytes()
    assert r.execute_command("TAMIS.LOAD", "f", 0, data) == 0
    expected = [int(entry["contains"][index]) for index in ITEMS]
    assert sum(expected) > 0
    assert answers(r, "TAMIS.MEXISTS", "f") == expected
    if "counts" in entry:
        assert answers(r, "TAMIS.COUNT", "f") == [entry["counts"][index] for index in ITEMS]
    if "values" in entry:
        assert answers(r, "TAMIS.GET", "f") == [entry["values"][index] for index in ITEMS]
    assert r.execute_command("TAMIS.DUMP", "f", 0)[1] == data
