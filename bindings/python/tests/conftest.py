"""What several tests share."""

import pathlib
import threading
import time
from collections.abc import Callable

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


def ticks_during(action: Callable[[], object]) -> int:
    """Returns how often another thread ran Python code inside one call of `action`: the most of 20 calls, or
    the first number above 3, because a busy machine may not schedule the other thread in a short call."""
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    most = 0
    try:
        for _ in range(20):
            start = time.monotonic()
            action()
            end = time.monotonic()
            most = max(most, sum(start < at < end for at in ticks))
            if most > 3:
                break
    finally:
        done.set()
        thread.join()
    return most
