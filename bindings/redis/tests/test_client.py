"""The client helper: one filter over many slots."""

import sys
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from tamis_redis import ShardedFilter, dump, load  # noqa: E402

from test_cluster import cluster_client, make_cluster  # noqa: E402


def test_shards_are_those_of_other_languages():
    """The Rust client's tests read the same file."""
    lines = (Path(__file__).parents[3] / "testdata/contract/shards.csv").read_text().splitlines()
    assert len(lines) > 50
    for line in lines[1:]:
        item, shards, shard = line.split(",")
        sharded = ShardedFilter(None, "seen", int(shards))
        assert sharded.shard(bytes.fromhex(item)) == int(shard)
        assert sharded.key(int(shard)) == f"seen:{{{shard}}}"


def check(client):
    seen = ShardedFilter(client, "seen", 16)
    items = [f"item {i}" for i in range(3000)]
    assert sum(seen.add(items)) > 2950
    assert seen.contains(items) == [True] * 3000
    assert sum(seen.contains([f"no {i}" for i in range(3000)])) < 100
    assert seen.remove(items[:10]) == [True] * 10
    assert seen.contains(items[10:]) == [True] * 2990
    fixed = ShardedFilter(client, "fixed", 16)
    fixed.reserve("cuckoo", 3000, 0.01)
    fixed.add(items)
    assert fixed.contains(items) == [True] * 3000
    fixed.delete()
    assert not any(fixed.contains(items))


def test_single_server(r):
    check(r)
    sizes = [r.execute_command("TAMIS.INFO", f"seen:{{{i}}}")[5] for i in range(16)]
    assert min(sizes) > 100, sizes


def test_cluster(make_server):
    nodes = make_cluster(make_server)
    check(cluster_client(nodes[0]))
    assert all(node.client().dbsize() > 0 for node in nodes)


def test_a_full_shard_is_an_error(r):
    fixed = ShardedFilter(r, "fixed", 2)
    fixed.reserve("cuckoo", 10, 0.01)
    with pytest.raises(ResponseError, match="full"):
        fixed.add(range(10_000))


def test_files(r, tmp_path):
    r.execute_command("TAMIS.MADD", "f", *range(200_000))
    dump(r, "f", tmp_path / "f.tamis")
    r.execute_command("TAMIS.ADD", "g", "old")
    load(r, "g", tmp_path / "f.tamis")
    assert r.execute_command("DEBUG", "DIGEST-VALUE", "f") == r.execute_command(
        "DEBUG", "DIGEST-VALUE", "g"
    )
    (tmp_path / "cut.tamis").write_bytes((tmp_path / "f.tamis").read_bytes()[:-9])
    with pytest.raises(ValueError, match="truncated"):
        load(r, "g", tmp_path / "cut.tamis")
    assert r.keys() in ([b"f", b"g"], [b"g", b"f"])
