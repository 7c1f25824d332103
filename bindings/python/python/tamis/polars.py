"""Filters in Polars.

>>> import polars as pl
>>> import tamis
>>> import tamis.polars
>>> fruit = tamis.polars.build(pl.DataFrame({"name": ["apple", "pear"]}), "name", fpr=1e-9)
>>> rows = pl.DataFrame({"name": ["apple", "stone"]})
>>> rows.filter(tamis.polars.contains(pl.col("name"), fruit))["name"].to_list()
['apple']
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ._tamis import AnyFilter, Filter
from ._tamis import build as _build


def build(
    frame: pl.DataFrame | pl.LazyFrame,
    column: str | pl.Expr,
    fpr: float | None = None,
    **options: Any,
) -> Filter:
    """Builds a filter from the distinct values of a column. Options are those of ``tamis.build``."""
    keys = frame.lazy().select(column).collect()
    return _build(keys, fpr, **options)


def contains(column: str | pl.Expr, keys: AnyFilter) -> pl.Expr:
    """Returns an expression that is true where the filter may hold the value, and false for null."""
    expression = pl.col(column) if isinstance(column, str) else column

    def look_up(values: pl.Series) -> pl.Series:
        return pl.Series(values.name, keys.contains(values))

    return expression.map_batches(look_up, return_dtype=pl.Boolean, is_elementwise=True)


def semi_join(
    big: pl.LazyFrame | pl.DataFrame,
    small: pl.LazyFrame | pl.DataFrame,
    on: str,
    fpr: float = 0.01,
) -> pl.LazyFrame:
    """Returns the rows of ``big`` whose value of ``on`` occurs in ``small``, exactly.

    A filter of the values of ``small`` drops most other rows before the join.
    """
    kept = big.lazy().filter(contains(on, build(small, on, fpr)))
    return kept.join(small.lazy().select(on), on=on, how="semi")
