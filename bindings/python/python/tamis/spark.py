"""Filters on Apache Spark: built and probed by all executors.

``build`` makes a filter from a column, ``contains`` is a condition on a column, and ``semi_join`` drops most
rows of a large table before they are moved for a join. All three are tested with classic sessions of
PySpark 4 and with Spark Connect. The package must be installed on the executors, in the version of the driver.

Rows do not pass through the driver:

* Kinds that merge: each task fills a filter of its rows. If these have at most 64 MiB together, the driver merges
  them. Otherwise tasks merge them in a tree, and the driver receives the last one.
* Static kinds: rows are divided by the leading bits of their hashes. Each task solves its part of the
  filter, and the driver puts the parts together, to the same bytes as a build on one machine.

``tamis.import_filter`` reads the bytes of Spark's own ``BloomFilter``, and ``export("spark_v2")`` writes them.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ._errors import TamisError
from ._tamis import (
    AnyFilter,
    Filter,
    __version__,
    _assemble,
    _count_part,
    _digests,
    _from_template,
    _solve_part,
    _template,
    from_bytes,
)
from ._tamis import open as _open

__all__ = ["build", "contains", "semi_join"]

#: The largest filter that a task makes.
_LIMIT = 1 << 33
#: The number of tasks that merge filters before the last one does.
_MERGERS = 8
#: The bytes of filters that the driver merges itself, because a shuffle takes longer.
_IN_DRIVER = 1 << 26
#: Static kinds that are built in parts.
_IN_PARTS = ("binary_fuse", "ribbon", "xor", "xorsat")

_Batches = Iterator[pa.RecordBatch]


def _check_version(driver: str) -> None:
    """Raises an error on an executor whose package differs from that of the driver."""
    if driver != __version__:
        raise TamisError(f"the driver has tamis {driver}, but this executor has tamis {__version__}")


def _rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(*column) for column in columns.values()], list(columns))


def _fill(template: bytes, version: str) -> Callable[[_Batches], _Batches]:
    """Returns a function that makes one filter of all rows of a task."""

    def fill(batches: _Batches) -> _Batches:
        _check_version(version)
        made = None
        for batch in batches:
            if batch.num_rows:
                if made is None:
                    made = _from_template(template, _LIMIT)
                made.update(batch.column(0))
        if made is not None:
            # A task that runs again must send its filter to the same merger.
            context = TaskContext.get()
            merger = context.partitionId() % _MERGERS if context else 0
            data = made.to_bytes()
            yield _rows(task=([merger], pa.int32()), size=([len(data)], pa.int64()), filter=([data], pa.binary()))

    return fill


def _merge(version: str) -> Callable[[_Batches], _Batches]:
    """Returns a function that merges the filters of all rows of a task."""

    def merge(batches: _Batches) -> _Batches:
        _check_version(version)
        merged = None
        for batch in batches:
            for row in batch.column("filter"):
                part = from_bytes(row.as_py())
                if merged is None:
                    merged = part
                else:
                    merged |= part
        if merged is not None:
            yield _rows(filter=([merged.to_bytes()], pa.binary()))

    return merge


def _tree(partial: DataFrame, filters: int) -> DataFrame:
    """Merges filters to one on the executors."""
    merge = _merge(__version__)
    if filters > _MERGERS:
        # The mergers work at the same time, and leave few filters to the last one.
        partial = partial.repartition(_MERGERS, "task").mapInArrow(merge, "filter binary")
    return partial.select("filter").repartition(1).mapInArrow(merge, "filter binary")


def _merge_here(filters: DataFrame, empty: Filter) -> Filter:
    """Merges filters in the driver."""
    made = None
    for row in filters.select("filter").toArrow().column(0):
        part = from_bytes(row.as_buffer())
        if made is None:
            made = part
        else:
            made |= part
    return empty if made is None else made


def _build_merged(keys: DataFrame, empty: Filter) -> Filter:
    partial = keys.mapInArrow(_fill(_template(empty), __version__), "task int, size bigint, filter binary")
    if empty.nbytes > _IN_DRIVER // 2:
        return _merge_here(_tree(partial, _MERGERS + 1), empty)
    # Only when all tasks are done is it known how many of them had rows.
    partial = partial.persist(StorageLevel.DISK_ONLY)
    try:
        sizes = [row["size"] for row in partial.select("size").collect()]
        few = sum(sizes) <= _IN_DRIVER
        return _merge_here(partial if few else _tree(partial, len(sizes)), empty)
    finally:
        partial.unpersist()


def _hash(name: str, seed: int, version: str) -> Callable[[_Batches], _Batches]:
    """Returns a function that hashes the rows of a task."""

    def digest(batches: _Batches) -> _Batches:
        _check_version(version)
        for batch in batches:
            digests, forms = _digests(batch.column(0), name, seed)
            form = np.full(len(digests), forms, dtype=np.int32)
            yield _rows(digest=(digests.view(np.int64),), forms=(form,))

    return digest


def _each_part(batches: _Batches) -> Iterator[tuple[int, Any, int]]:
    """Returns the number, digests and forms of each part in a task."""
    rows = [batch for batch in batches if batch.num_rows]
    if not rows:
        return
    table = pa.Table.from_batches(rows)
    numbers = table.column("part").to_numpy()
    digests = table.column("digest").to_numpy().view(np.uint64)
    forms = int(np.bitwise_or.reduce(table.column("forms").to_numpy()))
    for number in np.unique(numbers).tolist():
        yield number, np.ascontiguousarray(digests[numbers == number]), forms


def _count(parts: int, version: str) -> Callable[[_Batches], _Batches]:
    """Returns a function that counts the distinct keys of each part."""

    def count(batches: _Batches) -> _Batches:
        _check_version(version)
        for number, digests, forms in _each_part(batches):
            keys = _count_part(digests, number, parts)
            yield _rows(keys=([keys], pa.int64()), forms=([forms], pa.int32()))

    return count


def _solve(kind: str, parts: int, total: int, fpr: float, settings: Any, version: str) -> Any:
    """Returns a function that solves each part."""

    def solve(batches: _Batches) -> _Batches:
        _check_version(version)
        for number, digests, _ in _each_part(batches):
            solved = _solve_part(kind, digests, number, parts, total, fpr, settings)
            yield _rows(part=([number], pa.int32()), solved=([solved], pa.binary()))

    return solve


def _build_parts(
    keys: DataFrame, kind: str, fpr: float, parts: int, settings: Any, name: str, seed: int
) -> Filter:
    hashed = keys.mapInArrow(_hash(name, seed, __version__), "digest bigint, forms int")
    shift = 64 - (parts.bit_length() - 1)
    number = F.shiftrightunsigned("digest", shift).cast("int") if parts > 1 else F.lit(0)
    divided = hashed.withColumn("part", number).repartition(parts, "part").persist()
    try:
        counts = divided.mapInArrow(_count(parts, __version__), "keys bigint, forms int").collect()
        total = sum(row["keys"] for row in counts)
        forms = 0
        for row in counts:
            forms |= row["forms"]
        solve = _solve(kind, parts, total, fpr, settings, __version__)
        rows = divided.mapInArrow(solve, "part int, solved binary").collect()
    finally:
        divided.unpersist()
    solved = {row["part"]: bytes(row["solved"]) for row in rows}
    nothing = np.empty(0, dtype=np.uint64)
    for part in range(parts):
        if part not in solved:
            solved[part] = _solve_part(kind, nothing, part, parts, total, fpr, settings)
    return _assemble(kind, list(solved.values()), total, fpr, settings, name, seed, forms)


def build(
    frame: DataFrame,
    column: str | Column,
    fpr: float = 0.01,
    *,
    kind: str = "split_block_bloom",
    capacity: int | None = None,
    parts: int = 4,
    hash: str = "fast",
    seed: int | None = None,
    settings: dict[str, Any] | None = None,
) -> Filter:
    """Builds a filter from a column on the executors. Nulls are left out.

    ``kind`` merges (such as ``"split_block_bloom"``), or is one of ``binary_fuse``, ``ribbon``, ``xor`` and
    ``xorsat``. Kinds that merge are made for ``capacity`` keys; without it, the rows are counted first. Of
    the others, each of ``parts`` tasks, a power of 2 up to 256, solves a part.
    """
    keys = frame.select(F.col(column) if isinstance(column, str) else column)
    keys = keys.where(F.col(keys.columns[0]).isNotNull())
    seed = secrets.randbits(128) if seed is None else seed
    if kind in _IN_PARTS:
        # Wrong arguments are reported before a row is read.
        _solve_part(kind, np.empty(0, dtype=np.uint64), 0, parts, 1, fpr, settings)
        return _build_parts(keys, kind, fpr, parts, settings, hash, seed)
    count = max(1, keys.count()) if capacity is None else capacity
    empty = Filter(count, fpr, kind=kind, hash=hash, seed=seed, settings=settings)  # type: ignore[arg-type]
    return _build_merged(keys, empty)


#: The filters that this executor has mapped, by name.
_opened: dict[str, AnyFilter] = {}


def _find(name: str) -> AnyFilter:
    """Returns the filter that was sent to this executor, which maps it once."""
    from pyspark import SparkFiles

    found = _opened.get(name)
    if found is None:
        found = _opened[name] = _open(SparkFiles.get(name))
    return found


@functools.cache
def _outbox() -> tempfile.TemporaryDirectory[str]:
    """Returns a folder for filters that executors fetch, which exists as long as the driver."""
    return tempfile.TemporaryDirectory(prefix="tamis-")


def _send(session: SparkSession, keys: AnyFilter) -> str:
    """Makes a filter available to the executors of a session. Returns its name there."""
    data = keys.to_bytes()
    name = f"{hashlib.sha256(data).hexdigest()[:32]}.tamis"
    sent = session.__dict__.setdefault("_tamis_sent", set())
    if name not in sent:
        path = Path(_outbox().name) / name
        path.write_bytes(data)
        session.addArtifact(str(path), file=True)
        sent.add(name)
    return name


def contains(column: str | Column, keys: AnyFilter, *, session: SparkSession | None = None) -> Column:
    """Returns a condition that is true where the filter may hold the value, and false for null.

    The filter is sent to each executor once, as a file that its workers map.
    """
    name = _send(session or SparkSession.active(), keys)
    version = __version__

    def look_up(values: pa.Array) -> pa.Array:
        _check_version(version)
        return pa.array(_find(name).contains(values))

    if hasattr(F, "arrow_udf"):
        return F.arrow_udf(look_up, "boolean")(column)

    def look_up_series(values: Any) -> Any:
        found = look_up(pa.Array.from_pandas(values))
        return found.to_pandas()

    return F.pandas_udf(look_up_series, "boolean", F.PandasUDFType.SCALAR)(column)


def semi_join(
    big: DataFrame,
    small: DataFrame,
    on: str,
    fpr: float = 0.01,
    *,
    kind: str = "split_block_bloom",
    capacity: int | None = None,
    counters: Observation | None = None,
) -> DataFrame:
    """Returns the rows of ``big`` whose value of ``on`` occurs in ``small``, exactly.

    A filter of ``small`` drops most other rows of ``big`` before they are moved. After an action, ``counters``
    has ``rows``, the rows of ``big``, and ``kept``, those that the filter let through.
    """
    keys = build(small, on, fpr, kind=kind, capacity=capacity)
    flag = "_tamis_kept"
    marked = big.withColumn(flag, contains(on, keys, session=big.sparkSession))
    if counters is not None:
        marked = marked.observe(
            counters, F.count(F.lit(1)).alias("rows"), F.count_if(F.col(flag)).alias("kept")
        )
    kept = marked.where(F.col(flag)).drop(flag)
    return kept.join(small.select(on).distinct(), on=on, how="left_semi")
