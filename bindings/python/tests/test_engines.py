"""Polars and DuckDB."""

import duckdb
import polars as pl
import pytest

import tamis
import tamis.duckdb
import tamis.polars

WORDS = [f"word {number}" for number in range(5000)]


def test_polars_expression():
    fruit = tamis.build(WORDS, 1e-6)
    frame = pl.DataFrame({"word": [*WORDS, None, *(f"no {number}" for number in range(5000))]})
    mask = frame.select(tamis.polars.contains("word", fruit)).to_series()
    assert mask.dtype == pl.Boolean and mask.name == "word" and mask.null_count() == 0
    assert mask[:5000].all() and mask[5000:].sum() < 10
    lazy = frame.lazy().filter(tamis.polars.contains(pl.col("word"), fruit)).collect()
    assert lazy["word"][:5000].to_list() == WORDS


def test_polars_semi_join():
    big = pl.DataFrame({"id": range(100_000), "value": range(100_000)})
    small = pl.DataFrame({"id": [5, 5, 77, 99_999, 200_000]})
    joined = tamis.polars.semi_join(big, small, "id").collect()
    assert joined["value"].to_list() == [5, 77, 99_999]
    empty = tamis.polars.semi_join(big, small.head(0), "id").collect()
    assert empty.height == 0
    assert tamis.polars.semi_join(big.head(0), small, "id").collect().height == 0
    assert len(tamis.polars.build(pl.DataFrame({"id": []}), "id")) == 0


def test_polars_refuses_other_types():
    fruit = tamis.build(WORDS)
    with pytest.raises((tamis.MismatchError, pl.exceptions.ComputeError)):
        pl.DataFrame({"id": [1]}).select(tamis.polars.contains("id", fruit))


def test_duckdb_function():
    connection = duckdb.connect()
    connection.sql("CREATE TABLE words AS SELECT 'word ' || range AS word, range AS id FROM range(10000)")
    text = tamis.build(WORDS, 1e-6)
    tamis.duckdb.register(connection, "is_known", text)
    [(count,)] = connection.sql("SELECT count(*) FROM words WHERE is_known(word)").fetchall()
    assert 5000 <= count < 5010
    numbers = tamis.duckdb.build(connection.sql("SELECT * FROM words WHERE id < 100"), "id", 1e-6)
    tamis.duckdb.register(connection, "is_low", numbers, "BIGINT")
    [(count,)] = connection.sql("SELECT count(*) FROM words WHERE is_low(id)").fetchall()
    assert 100 <= count < 105
    assert connection.sql("SELECT is_known(NULL)").fetchall() == [(None,)]
    assert connection.sql("SELECT is_known(word) FROM words WHERE false").fetchall() == []
    assert len(tamis.duckdb.build(connection.sql("SELECT 'a' AS word WHERE false"), "word")) == 0
    assert len(tamis.duckdb.build(connection.sql("SELECT NULL::VARCHAR AS word"), "word")) == 0
