"""Compares tamis with other Python packages, in one run with the same keys.

    pip install rbloom abloom pybloomfiltermmap3 pyprobables pyfusefilter
    cargo build --release -p tamis-bench --example batch
    python bindings/python/bench.py [KEYS [ROUNDS]]

Each figure is the minimum of several rounds, in which the packages take turns, in reverse order in every second
one. Times are processor time of all threads, so that other programs on the machine disturb them less. Packages
that are not installed are left out, and so is the batch of Rust if it is not built. pyfusefilter needs an xxhash
below version 4.
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tamis

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
FPR = 0.01
#: The keys of pyprobables, which takes 20 microseconds for each.
FEW = 10**5


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

        found["pyprobables"] = lambda: probables.BloomFilter(min(keys, FEW), FPR)
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
    """Measures loops over `str` and `int`, and batches where a package has them."""
    order = random.Random(1)
    numbers = list(range(10**9, 10**9 + count))
    order.shuffle(numbers)
    array = np.array(numbers, dtype=np.uint64)
    best, rates, bits = Best(), {}, {}
    makers = peers(count)
    for turn in range(ROUNDS):
        # New strings in each round: Python caches the hash of a string, which others than tamis use.
        members = [f"key-{number}" for number in numbers]
        strangers = [f"not-{number}" for number in numbers]
        # The first package of a round reads strings that are in no cache.
        for name in list(makers)[:: 1 if turn % 2 == 0 else -1]:
            make = makers[name]
            few = name == "pyprobables"
            if few and turn > 0:
                continue
            keys = min(count, FEW) if few else count
            made = make()
            best.note(name, "add str", loop(made.add, members[:keys]), keys)
            best.note(name, "in str, hit", lookups(made, members[:keys]), keys)
            best.note(name, "in str, miss", lookups(made, strangers[:keys]), keys)
            bits[name] = size_of(name, made) * 8 / keys
            rates[name] = sum(key in made for key in strangers[:keys]) / keys
            if few:
                continue
            made = make()
            best.note(name, "add int", loop(made.add, numbers), count)
            best.note(name, "in int, hit", lookups(made, numbers), count)
            made, batch = make(), array if name.startswith("tamis") else numbers
            best.note(name, "update", loop(made.update, [batch]), count)
            if name.startswith("tamis"):
                best.note(name, "contains", loop(made.contains, [array]), count)
    columns = ["add str", "in str, hit", "in str, miss", "add int", "in int, hit", "update", "contains"]
    print(f"\nns per key, {count} keys at {FPR:.0%} (pyprobables: {min(count, FEW)} keys): loops, and one call for all")
    print("integers, which tamis takes from a NumPy array and the others from a list\n")
    print("| package |", " | ".join(columns), "| bits/key | measured rate |")
    print("| --- |" + " ---: |" * (len(columns) + 2))
    for name in makers:
        cells = [best.get(name, column) for column in columns]
        print(f"| {name} |", " | ".join(cells), f"| {bits[name]:.2f} | {rates[name]:.3%} |", flush=True)
    for column in columns:
        other = {"update": "add int", "contains": "in int, hit"}.get(column, column)
        ours, theirs = best.times["tamis", column], best.times.get(("rbloom", other))
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


def rust_batch(count: int) -> tuple[float, float] | None:
    """Returns the times of the same batches in Rust on one thread, to insert and to look up."""
    root = Path(__file__).resolve().parents[2]
    program = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release/examples/batch"
    if not program.exists():
        return None
    output = subprocess.run([program, str(count)], check=True, capture_output=True, text=True).stdout
    inserting, finding = map(float, output.split())
    return inserting, finding


def batches(count: int) -> None:
    """Measures batches beside the same in Rust."""
    numbers = np.random.default_rng(1).integers(0, 2**63, count, dtype=np.uint64)
    texts = pa.array([f"key-{number}" for number in numbers.tolist()])
    best = Best()

    def timed(what: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = action()
        best.note("tamis", what, time.process_time() - start, count)
        return result

    for _ in range(ROUNDS):
        if rust := rust_batch(count):
            best.note("Rust", "insert_batch, u64", rust[0] * count / 1e9, count)
            best.note("Rust", "contains_batch, u64", rust[1] * count / 1e9, count)
        ours = tamis.Filter(count, FPR)
        timed("update, NumPy u64", lambda: ours.update(numbers))
        assert timed("contains, NumPy u64", lambda: ours.contains(numbers)).all()
        timed("contains, NumPy u64, 1 thread", lambda: ours.contains(numbers, threads=1))
        ours = tamis.Filter(count, FPR)
        timed("update, Arrow strings", lambda: ours.update(texts))
        assert timed("contains, Arrow strings", lambda: ours.contains(texts)).all()
        static = timed("build, NumPy u64", lambda: tamis.build(numbers, kind="binary_fuse"))
        assert timed("contains, static", lambda: static.contains(numbers)).all()
    print(f"\nbatches of {count} keys, ns per key\n\n| what | ns |\n| --- | ---: |")
    for (name, what), measured in best.times.items():
        print(f"| {name}: {what} | {measured:.1f} |")


def main() -> None:
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6
    for keys in sorted({min(count, 10**5), count}):
        scalar(keys)
        static(keys)
    batches(count)
    footprint()


def footprint() -> None:
    """Measures the import, beside an interpreter that does nothing, and the size of a wheel."""

    def started(program: str) -> tuple[float, float]:
        before, start = os.times(), time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        wall, after = time.perf_counter() - start, os.times()
        return wall, after.children_user + after.children_system - before.children_user - before.children_system

    runs = [[started(program) for program in ("pass", "import tamis")] for _ in range(10)]
    (wall, cpu), (idle_wall, idle_cpu) = ([min(each[i][k] for each in runs) for k in (0, 1)] for i in (1, 0))
    print(f"\nimport tamis: {(wall - idle_wall) * 1e3:.0f} ms, processor time {(cpu - idle_cpu) * 1e3:.0f} ms")
    # A wheel is such an archive of the package.
    packed, folder = io.BytesIO(), Path(tamis.__file__).parent
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.iterdir():
            if path.is_file():
                archive.write(path, path.name)
    print(f"wheel: {len(packed.getvalue()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
