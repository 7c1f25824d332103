"""What several tests share."""

import pathlib

import pytest

import tamis

ROOT = pathlib.Path(__file__).resolve().parents[3]
KINDS = {kind.name: kind for kind in tamis.kinds()}
INSERTING = [name for name, kind in KINDS.items() if "insert" in kind.capabilities]
STATIC = [name for name, kind in KINDS.items() if "static" in kind.capabilities]
REMOVING = [name for name, kind in KINDS.items() if "remove" in kind.capabilities]
MERGING = [name for name, kind in KINDS.items() if "merge" in kind.capabilities]


@pytest.fixture
def root() -> pathlib.Path:
    return ROOT
