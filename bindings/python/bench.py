"""Compares tamis with other Python packages, in one run with the same keys.

    pip install rbloom abloom pybloomfiltermmap3 pyprobables pyfusefilter
    python bindings/python/bench.py [KEYS [ROUNDS]]

Each figure is the minimum of several rounds, in which the packages take turns. Times are processor time of all
threads, so that other programs on the machine disturb them less. Packages that are not installed are left
out.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import tamis

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
FPR = 0.01


def peers(keys: int) -> dict[str, Callable[[], Any]]:
    """Returns a function for each package that makes an empty filter."""
    found: dict[str, Callable[[], Any]] = {
        "tamis": lambda: tamis.Filter(keys, FPR),
        "tamis bloom": lambda: tamis.Filter(keys, FPR, kind="bloom"),
    }
    try:
        import rbloom

        found["rbloom"] = lambda: rbloom.Bloom(keys, FPR)
    except ImportError:
        pass
    try:
        import abloom

        found["abloom"] = lambda: abloom.BloomFilter(keys, FPR)
    except ImportError:
        pass
    try:
        import pybloomfilter

        def in_memory() -> Any:
            return pybloomfilter.BloomFilter(keys, FPR)

        found["pybloomfiltermmap3"] = in_memory
    except ImportError:
        pass
    try:
        import probables

        if keys <= 10**5:
            found["pyprobables"] = lambda: probables.BloomFilter(keys, FPR)
    except ImportError:
        pass
    return found


def size_of(name: str, made: Any) -> float:
    """Returns the size of a filter's table in bytes."""
    if name.startswith("tamis"):
        return float(made.nbytes)
    if name == "rbloom":
        return float(made.size_in_bits) / 8
    if name == "abloom":
        return float(made.byte_count)
    if name == "pybloomfiltermmap3":
        return float(made.num_bits) / 8
    return float(made.number_bits) / 8


def loop(action: Callable[[Any], Any], keys: list[Any]) -> float:
    start = time.process_time()
    for key in keys:
        action(key)
    return time.process_time() - start


def lookups(made: Any, keys: list[Any]) -> float:
    start = time.process_time()
    for key in keys:
        key in made  # noqa: B015
    return time.process_time() - start


class Best:
    """The least time per key of each measurement, in ns."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], float] = {}

    def note(self, name: str, what: str, seconds: float, keys: int) -> None:
        time_per_key = seconds / keys * 1e9
        self.times[name, what] = min(time_per_key, self.times.get((name, what), float("inf")))

    def get(self, name: str, what: str) -> str:
        measured = self.times.get((name, what))
        return "" if measured is None else f"{measured:.1f}"


def scalar(count: int) -> None:
    """Measures loops over `str` and `int`."""
    order = random.Random(1)
    numbers = list(range(10**9, 10**9 + count))
    order.shuffle(numbers)
    best, rates, bits = Best(), {}, {}
    makers = peers(count)
    for turn in range(ROUNDS):
        # New strings in each round: Python caches the hash of a string, which others than tamis use.
        members = [f"key-{number}" for number in numbers]
        strangers = [f"not-{number}" for number in numbers]
        for name, make in makers.items():
            if name == "pyprobables" and turn > 0:
                continue  # 17 microseconds per key
            made = make()
            best.note(name, "add str", loop(made.add, members), count)
            best.note(name, "in str, hit", lookups(made, members), count)
            best.note(name, "in str, miss", lookups(made, strangers), count)
            bits[name] = size_of(name, made) * 8 / count
            rates[name] = sum(key in made for key in strangers) / count
            if name != "pyprobables":
                made = make()
                best.note(name, "add int", loop(made.add, numbers), count)
                best.note(name, "in int, hit", lookups(made, numbers), count)
    columns = ["add str", "in str, hit", "in str, miss", "add int", "in int, hit"]
    print(f"\nns per key in a Python loop, {count} keys at {FPR:.0%}\n")
    print("| package |", " | ".join(columns), "| bits/key | measured rate |")
    print("| --- |" + " ---: |" * (len(columns) + 2))
    for name in makers:
        cells = [best.get(name, column) for column in columns]
        print(f"| {name} |", " | ".join(cells), f"| {bits[name]:.2f} | {rates[name]:.3%} |")
    for column in columns:
        ours, theirs = best.times["tamis", column], best.times.get(("rbloom", column))
        if theirs:
            print(f"\ntamis / rbloom, {column}: {ours / theirs:.2f}", end="")
    print()


def static(count: int) -> None:
    """Measures static filters beside pyfusefilter, whose keys are integers."""
    try:
        import pyfusefilter
    except ImportError:
        return
    numbers = random.Random(2).sample(range(2**62), 2 * count)
    members, strangers = numbers[:count], numbers[count:]
    best, rates, bits = Best(), {}, {}
    for _ in range(ROUNDS):
        fuse = pyfusefilter.Fuse8(count)
        best.note("pyfusefilter Fuse8", "build", loop(fuse.populate, [members]), count)
        best.note("pyfusefilter Fuse8", "contains", loop(fuse.contains, members), count)
        bits["pyfusefilter Fuse8"] = fuse.size_in_bytes() * 8 / count
        rates["pyfusefilter Fuse8"] = sum(map(fuse.contains, strangers)) / count
        for kind in ("binary_fuse", "ribbon"):
            name = f"tamis {kind}"
            start = time.process_time()
            ours = tamis.build(members, 1 / 256, kind=kind, threads=1)
            best.note(name, "build", time.process_time() - start, count)
            best.note(name, "contains", lookups(ours, members), count)
            bits[name] = ours.nbytes * 8 / count
            rates[name] = sum(key in ours for key in strangers) / count
    print(f"\nstatic filters of {count} integers in a list, ns per key\n")
    print("| package | build | lookup in a loop | bits/key | measured rate |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in bits:
        cells = [best.get(name, what) for what in ("build", "contains")]
        print(f"| {name} |", " | ".join(cells), f"| {bits[name]:.2f} | {rates[name]:.3%} |")


def batches(count: int) -> None:
    """Measures batches, beside rbloom's loop over the same keys."""
    numbers = np.random.default_rng(1).integers(0, 2**63, count, dtype=np.uint64)
    texts = pa.array([f"key-{number}" for number in numbers.tolist()])
    best = Best()

    def timed(what: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = action()
        best.note("tamis", what, time.process_time() - start, count)
        return result

    for _ in range(ROUNDS):
        ours = tamis.Filter(count, FPR)
        timed("update, NumPy u64", lambda: ours.update(numbers))
        assert timed("contains, NumPy u64", lambda: ours.contains(numbers)).all()
        timed("contains, NumPy u64, 1 thread", lambda: ours.contains(numbers, threads=1))
        ours = tamis.Filter(count, FPR)
        timed("update, Arrow strings", lambda: ours.update(texts))
        assert timed("contains, Arrow strings", lambda: ours.contains(texts)).all()
        static = timed("build, NumPy u64", lambda: tamis.build(numbers, kind="binary_fuse"))
        assert timed("contains, static", lambda: static.contains(numbers)).all()
    try:
        import rbloom

        theirs = rbloom.Bloom(count, FPR)
        plain = numbers.tolist()
        best.note("rbloom", "add int", loop(theirs.add, plain), count)
        best.note("rbloom", "in int", lookups(theirs, plain), count)
    except ImportError:
        pass
    print(f"\nbatches of {count} keys, ns per key\n\n| what | ns |\n| --- | ---: |")
    for (name, what), measured in best.times.items():
        print(f"| {name}: {what} | {measured:.1f} |")


def main() -> None:
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6
    scalar(10**5)
    scalar(min(count, 10**6))
    static(min(count, 10**6))
    batches(count)
    times = {}
    for program in ("pass", "import tamis") * 5:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        times[program] = min(time.perf_counter() - start, times.get(program, 1e9))
    print(f"\nimport tamis: {(times['import tamis'] - times['pass']) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
