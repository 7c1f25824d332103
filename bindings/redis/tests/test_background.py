"""Large filters: TAMIS.LOAD, TAMIS.MERGE and COPY do not make the server wait."""

import threading

import pytest
from redis.exceptions import ResponseError

from conftest import digest, wait_until
from test_commands import dump

KEYS = 20_000_000
"""A Bloom filter of so many keys has 24 MB."""


def in_background(server, *command):
    """Runs a command of another client. Returns its reply and whether the server answered meanwhile."""
    replies = []

    def run():
        try:
            replies.append(server.client().execute_command(*command))
        except ResponseError as error:
            replies.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    client, seen = server.client(), False
    while not replies:
        seen |= client.info("everything")["tamis_jobs_running"] > 0
    thread.join()
    return replies[0], seen


def make(client, *keys):
    for key in keys:
        words = ["bloom", KEYS, 0.01, "SEED", "0" * 31 + "5"]
        client.execute_command("TAMIS.RESERVE", key, *words)
        client.execute_command("TAMIS.ADD", key, f"in {key}")


def test_merge(make_server):
    server = make_server()
    client = server.client()
    make(client, "a", "b")
    reply, seen = in_background(server, "TAMIS.MERGE", "c", "a", "b")
    assert reply == 2 and seen
    assert client.execute_command("TAMIS.MEXISTS", "c", "in a", "in b", "no") == [1, 1, 0]
    client.execute_command("TAMIS.RESERVE", "other", "bloom", KEYS, 0.01)
    reply, _ = in_background(server, "TAMIS.MERGE", "c", "other")
    assert "hash or seed" in str(reply)
    assert client.execute_command("TAMIS.MEXISTS", "c", "in a", "in b", "no") == [1, 1, 0]


def test_merge_of_filters_that_change(make_server):
    """The replica merges what the master has merged."""
    server = make_server()
    replica = make_server("--replicaof", f"127.0.0.1 {server.port}")
    client, copy = server.client(), replica.client()
    wait_until(lambda: copy.info("replication")["master_link_status"] == "up")
    make(client, "a", "b", "c")
    stop, added = threading.Event(), []

    def write():
        mine = server.client()
        while not stop.is_set():
            item = f"item {len(added)}"
            mine.execute_command("TAMIS.ADD", "abc"[len(added) % 3], item)
            added.append(item)

    writer = threading.Thread(target=write)
    writer.start()
    before = len(added)
    for _ in range(3):
        before = len(added)
        assert client.execute_command("TAMIS.MERGE", "c", "a", "b") > 0
    stop.set()
    writer.join()
    assert client.execute_command("TAMIS.MEXISTS", "c", *added[:before]) == [1] * before
    assert client.wait(1, 60_000) == 1
    assert digest(client) == digest(copy)


def test_the_last_chunk_of_a_load(make_server):
    server = make_server("--appendonly", "yes")
    replica = make_server("--replicaof", f"127.0.0.1 {server.port}")
    client = server.client()
    make(client, "f")
    data = dump(client, "f", 16 << 20)
    half = len(data) // 2
    assert client.execute_command("TAMIS.LOAD", "g", 0, data[:half]) == len(data) - half
    reply, seen = in_background(server, "TAMIS.LOAD", "g", half, data[half:])
    assert reply == 0 and seen
    assert client.execute_command("TAMIS.EXISTS", "g", "in f") == 1
    # Of one chunk; and a filter with a fault, which leaves no key behind.
    reply, _ = in_background(server, "TAMIS.LOAD", "whole", 0, data)
    assert reply == 0
    bad = bytearray(data)
    bad[len(bad) // 2] ^= 1
    for key, offset in [("bad", 0), ("bad half", half)]:
        if offset:
            client.execute_command("TAMIS.LOAD", key, 0, bytes(bad[:offset]))
        reply, _ = in_background(server, "TAMIS.LOAD", key, offset, bytes(bad[offset:]))
        assert isinstance(reply, ResponseError)
        wait_until(lambda: not client.exists(key))
    assert client.wait(1, 60_000) == 1
    before = digest(client)
    assert digest(replica.client()) == before
    server.restart()
    assert digest(server.client()) == before


def test_a_load_that_is_deleted_or_begun_again(make_server):
    server = make_server()
    client = server.client()
    make(client, "f")
    data = dump(client, "f", 16 << 20)
    half = len(data) // 2
    for again in [["DEL", "g"], ["TAMIS.LOAD", "g", 0, data[:1000]], ["SET", "g", "x"]]:
        client.delete("g")
        client.execute_command("TAMIS.LOAD", "g", 0, data[:half])
        outcome = []

        def load():
            try:
                outcome.append(server.client().execute_command("TAMIS.LOAD", "g", half, data[half:]))
            except ResponseError as error:
                outcome.append(str(error))

        thread = threading.Thread(target=load)
        thread.start()
        wait_until(lambda: client.info("everything")["tamis_jobs_running"] == 1 or outcome)
        try:
            client.execute_command(*again)
        except ResponseError:
            # The load was faster.
            pass
        thread.join()
        if outcome != [0]:
            assert "changed while" in outcome[0] or "WRONGTYPE" in outcome[0], outcome


@pytest.mark.parametrize("change", ["original", "copy"])
def test_a_copy_shares_memory_until_a_change(make_server, change):
    server = make_server()
    client = server.client()
    make(client, "f")
    size, before = client.memory_usage("f"), client.info("memory")["used_memory"]
    assert client.copy("f", "g")
    assert client.info("memory")["used_memory"] < before + size / 10
    changed, other = ("f", "g") if change == "original" else ("g", "f")
    client.execute_command("TAMIS.ADD", changed, "more")
    assert client.info("memory")["used_memory"] > before + size * 0.9
    assert client.execute_command("TAMIS.MEXISTS", changed, "in f", "more") == [1, 1]
    assert client.execute_command("TAMIS.MEXISTS", other, "in f", "more") == [1, 0]
