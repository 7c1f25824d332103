"""A pytest plugin: redis-py's tests look for a module named `bf`, and skip or fail without it."""

import sys

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    modules = sys.modules["tests.conftest"].REDIS_INFO.setdefault("modules", [])
    modules.append({"name": "bf", "ver": 20400})
