"""Filters in DuckDB.

>>> import duckdb
>>> import tamis
>>> import tamis.duckdb
>>> connection = duckdb.connect()
>>> fruit = tamis.build(["apple", "pear"], fpr=1e-9)
>>> tamis.duckdb.register(connection, "is_fruit", fruit)
>>> connection.sql("SELECT name FROM (VALUES ('apple'), ('stone')) t(name) WHERE is_fruit(name)").fetchall()
[('apple',)]
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from ._tamis import AnyFilter, Filter
from ._tamis import build as _build


def build(
    relation: duckdb.DuckDBPyRelation,
    column: str,
    fpr: float | None = None,
    **options: Any,
) -> Filter:
    """Builds a filter from a column of a relation. Options are those of ``tamis.build``."""
    quoted = '"' + column.replace('"', '""') + '"'
    return _build(relation.project(quoted), fpr, **options)


def register(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    keys: AnyFilter,
    type: str = "VARCHAR",
) -> None:
    """Makes a function ``name`` for SQL that is true where the filter may hold its argument.

    ``type`` is the SQL type of the argument, such as ``"VARCHAR"`` or ``"BIGINT"``. Null gives null.
    """

    def look_up(values: Any) -> Any:
        return pa.array(keys.contains(values))

    # The types of this method differ between versions.
    create: Any = connection.create_function
    create(name, look_up, [duckdb.sqltype(type)], duckdb.sqltype("BOOLEAN"), type="arrow")
