"""`tamis push`, `tamis pull` and `tamis shard`, on a server and on a cluster."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import free_port, wait_until
from test_cluster import cluster_client, make_cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "client"))

from tamis_redis import ShardedFilter  # noqa: E402

TAMIS = os.environ.get("TAMIS_COMMAND")
pytestmark = pytest.mark.skipif(not TAMIS, reason="the command is not built")


def tamis(*words, **options):
    """Runs the command. Returns its exit status and standard error."""
    words = [TAMIS, *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **options)
    return done.returncode, done.stderr


def works(*words, **options):
    assert tamis(*words, **options) == (0, ""), words


def build(path, keys, *options):
    works("build", "-q", "-o", path, *options, input="\n".join(keys))
    return path


def location(server, key):
    return f"redis://127.0.0.1:{server.port}/#{key}"


@pytest.fixture(params=["server", "cluster"])
def place(request, make_server):
    """A server and a client of it, or of the cluster that it belongs to."""
    if request.param == "server":
        server = make_server()
        return server, server.client()
    nodes = make_cluster(make_server)
    return nodes[0], cluster_client(nodes[0])


def keys_of(client):
    return sorted(key.decode() for key in client.scan_iter())


def test_push_and_pull(place, tmp_path):
    server, client = place
    words = [f"word {i}" for i in range(3000)]
    first = build(tmp_path / "a.tamis", words)
    works("push", first, location(server, "words"))
    assert client.execute_command("TAMIS.MEXISTS", "words", *words) == [1] * 3000
    works("pull", location(server, "words"), "-o", tmp_path / "b.tamis")
    assert (tmp_path / "b.tamis").read_bytes() == first.read_bytes()
    # Another filter takes its place, whatever the key holds, and keeps no time to live.
    second = build(tmp_path / "c.tamis", ["one", "two"], "--filter", "cuckoo")
    client.set("text", "x", ex=1000)
    for key in ["words", "text"]:
        works("push", "-", location(server, key), stdin=open(second, "rb"))
        assert client.execute_command("TAMIS.MEXISTS", key, "one", "two") == [1, 1]
        assert client.ttl(key) == -1
    assert keys_of(client) == ["text", "words"]


def test_shards(place, tmp_path):
    server, client = place
    words = [f"word {i}" for i in range(3000)]
    works("shard", "--shards", 3, "-o", tmp_path / "words.{}.txt", input="\n".join(words))
    parts = [(tmp_path / f"words.{i}.txt").read_text().splitlines() for i in range(3)]
    assert sorted(sum(parts, [])) == sorted(words)
    filters = [build(tmp_path / f"words.{i}.tamis", part) for i, part in enumerate(parts)]
    works("push", *filters, location(server, "words"))
    assert keys_of(client) == ["words:{0}", "words:{1}", "words:{2}"]
    sharded = ShardedFilter(client, "words", 3)
    assert sharded.contains(words) == [True] * 3000
    works("pull", location(server, "words"), "--shards", 3, "-o", tmp_path / "again.{}.tamis")
    for i, filter in enumerate(filters):
        assert (tmp_path / f"again.{i}.tamis").read_bytes() == filter.read_bytes()


def large(tmp_path):
    """Builds a filter of some chunks: 12 MiB."""
    path = tmp_path / "large.tamis"
    return build(path, ["a"], "--filter", "bloom", "--keys", "10M", "--fpr", "1%")


def test_an_interrupted_push_changes_nothing(make_server, tmp_path):
    server = make_server()
    client = server.client()
    works("push", build(tmp_path / "small.tamis", ["old"]), location(server, "f"))
    before = client.dump("f")
    path = large(tmp_path)
    for number in [signal.SIGKILL, signal.SIGINT]:
        process = subprocess.Popen([TAMIS, "push", path, location(server, "f")])
        wait_until(lambda: client.dbsize() > 1 or process.poll() is not None)
        process.send_signal(number)
        if process.wait() != 0:
            assert client.dump("f") == before
            for key in client.keys("{f}:push:*"):
                assert 0 < client.ttl(key) <= 600
                client.delete(key)
        client.restore("f", 0, before, replace=True)
    works("push", path, location(server, "f"))
    assert client.execute_command("TAMIS.EXISTS", "f", "a") == 1


def fails(text, *words):
    status, error = tamis(*words)
    assert status == 2 and text in error and error.count("\n") == 1, (status, error)


def test_errors_are_one_line(make_server, tmp_path):
    server = make_server()
    client = server.client()
    small, target = build(tmp_path / "small.tamis", ["a"]), tmp_path / "out.tamis"
    fails("has no #KEY", "push", small, "redis://127.0.0.1:1/")
    fails("redis://HOST:PORT/", "push", small, "nonsense#f")
    fails("redis://HOST:PORT/", "pull", "http://127.0.0.1/#f", "-o", target)
    fails("refused", "push", small, f"redis://127.0.0.1:{free_port()}/#f")
    fails("not found", "pull", location(server, "none"), "-o", target)
    client.set("text", "x")
    fails("WRONGTYPE", "pull", location(server, "text"), "-o", target)
    fails("has no {}", "pull", location(server, "f"), "--shards", 2, "-o", target)
    fails("not found", "pull", location(server, "f"), "--shards", 2, "-o", tmp_path / "o.{}")
    status, error = tamis("push", small, f"redis://me:secret@127.0.0.1:{server.port}/#f")
    assert status == 2 and "secret" not in error and error.count("\n") == 1, error
    (tmp_path / "bad.tamis").write_bytes(b"no filter")
    fails("bad.tamis", "push", tmp_path / "bad.tamis", location(server, "f"))
    assert not target.exists() and client.keys() == [b"text"]


def test_a_server_without_the_module(make_server, tmp_path):
    server = make_server(with_module=False)
    small = build(tmp_path / "small.tamis", ["a"])
    missing = "the server does not have the tamis module"
    fails(missing, "push", small, location(server, "f"))
    fails(missing, "pull", location(server, "f"), "-o", tmp_path / "out.tamis")


def test_a_filter_over_the_cap(make_server, tmp_path):
    server = make_server(module_arguments=["max-filter-bytes", "1mb"])
    fails("max-filter-bytes", "push", large(tmp_path), location(server, "f"))
    assert server.client().dbsize() == 0


def test_a_lost_connection(make_server, tmp_path):
    server = make_server()
    process = subprocess.Popen(
        [TAMIS, "push", large(tmp_path), location(server, "f")], stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: server.client().dbsize() > 0 or process.poll() is not None)
    running = process.poll() is None
    server.kill()
    _, error = process.communicate(timeout=100)
    if running and process.returncode != 0:
        assert process.returncode == 2 and error.count("\n") == 1, error


def test_a_filter_that_grows_is_pulled_whole(make_server, tmp_path):
    server = make_server()
    client = server.client()
    client.execute_command("TAMIS.RESERVE", "f", "bloom", 10_000_000, 0.01)
    client.execute_command("TAMIS.MADD", "f", *range(1000))
    process = subprocess.Popen([TAMIS, "pull", location(server, "f"), "-o", tmp_path / "f.tamis"])
    number = 0
    while process.poll() is None:
        client.execute_command("TAMIS.ADD", "f", f"more {number}")
        number += 1
    assert process.returncode == 0
    found = subprocess.run(
        [TAMIS, "query", tmp_path / "f.tamis"],
        input="\n".join(map(str, range(1000))),
        capture_output=True,
        text=True,
    )
    assert len(found.stdout.splitlines()) == 1000
    assert client.keys() == [b"f"]
