"""Restart, append-only files, kills, replicas: nothing that was acknowledged is lost."""

import threading
import time

import pytest
from redis.exceptions import ConnectionError, ResponseError

from conftest import SOAK, digest, wait_until


def fill(client):
    """Makes one value of each form and of many kinds."""
    kinds = ["bloom", "growing", "cuckoo", "counting_quotient", "scalable_bloom", "broom", "tinyset"]
    for kind in kinds:
        client.execute_command("TAMIS.RESERVE", f"of {kind}", kind, 4000, 0.01)
        client.execute_command("TAMIS.MADD", f"of {kind}", *range(3000))
    client.execute_command("TAMIS.RESERVE", "window", "sliding", 1000, 0.01)
    client.execute_command("TAMIS.PUSH", "window", *range(3000))
    client.execute_command("TAMIS.RESERVE", "hour", "sliding", 100_000, 0.01, "WINDOW", 3_600_000)
    client.execute_command("TAMIS.PUSH", "hour", *range(3000))
    client.rpush("list", *range(2000))
    client.execute_command("TAMIS.BUILD", "static", "FROM", "list", "ribbon", 0.01)
    client.execute_command("TAMIS.BUILD", "staged", "BEGIN", "bloomier", 0.01, "SET", "value_bits", 9)
    client.execute_command("TAMIS.BUILD", "staged", "ENTRIES", "a", 1, "b", 2)
    _, data = client.execute_command("TAMIS.DUMP", "of growing", 0)
    client.execute_command("TAMIS.LOAD", "loading", 0, data[:1000])
    client.execute_command("BF.ADD", "bf", "a")
    client.execute_command("CF.ADD", "cf", "a")
    # Larger than a chunk.
    client.execute_command("TAMIS.RESERVE", "large", "bloom", 2_000_000, 0.01)
    client.execute_command("TAMIS.MADD", "large", *range(1000))
    return data


def check_usable(client, data):
    """Goes on with every value."""
    assert client.execute_command("TAMIS.MEXISTS", "of cuckoo", *range(3000)) == [1] * 3000
    assert client.execute_command("TAMIS.MADD", "of growing", *range(3000, 4000))
    assert client.execute_command("TAMIS.BUILD", "staged", "ENTRIES", "c", 300) == 3
    assert client.execute_command("TAMIS.BUILD", "staged", "END") == 3
    assert client.execute_command("TAMIS.GET", "staged", "a", "b", "c") == [1, 2, 300]
    assert client.execute_command("TAMIS.LOAD", "loading", 1000, data[1000:]) == 0
    assert client.execute_command("TAMIS.MEXISTS", "loading", *range(3000)) == [1] * 3000


def test_restart_after_save(make_server):
    server = make_server()
    data = fill(server.client())
    before = digest(server.client())
    server.client().save()
    server.restart()
    assert digest(server.client()) == before
    check_usable(server.client(), data)


def test_debug_reload(make_server):
    client = make_server().client()
    fill(client)
    before = digest(client)
    client.execute_command("DEBUG", "RELOAD")
    assert digest(client) == before


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_append_only_file(make_server, preamble):
    server = make_server("--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    client = server.client()
    data = fill(client)
    before = digest(client)
    server.restart()
    assert digest(server.client()) == before
    client = server.client()
    client.bgrewriteaof()
    wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0)
    wait_until(lambda: client.info("persistence")["aof_rewrite_scheduled"] == 0)
    server.restart()
    assert digest(server.client()) == before
    check_usable(server.client(), data)
    after = digest(server.client())
    server.restart()
    assert digest(server.client()) == after


def test_kill_loses_nothing_acknowledged(make_server):
    server = make_server("--appendonly", "yes", "--appendfsync", "always")
    for round in range(2):
        acknowledged = []

        def write():
            client = server.client()
            number = 0
            try:
                while True:
                    item = f"{round} {number}"
                    client.execute_command("TAMIS.ADD", "f", item)
                    client.execute_command("BF.ADD", "bf", item)
                    acknowledged.append(item)
                    number += 1
            except ConnectionError:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: len(acknowledged) > 100)
        server.kill()
        writer.join()
        server.start()
        client = server.client()
        for key in ["f", "bf"]:
            found = client.execute_command("TAMIS.MEXISTS", key, *acknowledged)
            assert found == [1] * len(acknowledged)


def test_replica_has_the_same_bytes(make_server):
    master = make_server()
    data = fill(master.client())
    replica = make_server("--replicaof", f"127.0.0.1 {master.port}")
    client, copy = master.client(), replica.client()

    def caught_up():
        offset = client.info("replication")["master_repl_offset"]
        state = copy.info("replication")
        return state["master_link_status"] == "up" and state["slave_repl_offset"] == offset

    stop = threading.Event()
    failures = []

    def load(number):
        try:
            mine = master.client()
            step = 0
            while not stop.is_set():
                step += 1
                items = [f"{number} {step} {i}" for i in range(20)]
                mine.execute_command("TAMIS.MADD", f"new {number}", *items)
                mine.execute_command("TAMIS.ADDNX", "of growing", *items)
                mine.execute_command("TAMIS.REM", f"new {number}", *items[:5])
                mine.execute_command("BF.MADD", "bf", *items)
                mine.execute_command("CF.ADD", f"cf {number}", items[0])
                mine.execute_command("TAMIS.PUSH", "window", *items)
                mine.execute_command("TAMIS.PUSH", "hour", *items)
                if step % 10 == 0:
                    mine.delete(f"static {number}")
                    mine.execute_command(
                        "TAMIS.BUILD", f"static {number}", "FROM", "list", "binary_fuse", 0.01
                    )
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=load, args=[number]) for number in range(4)]
    for worker in workers:
        worker.start()
    time.sleep(60 if SOAK else 3)
    # A full cuckoo filter refuses; what it took before must reach the replica.
    for start in range(0, 4000, 50):
        client.execute_command("TAMIS.MADD", "of cuckoo", *range(10_000 + start, 10_050 + start))
    stop.set()
    for worker in workers:
        worker.join()
    assert not failures
    check_usable(client, data)
    wait_until(caught_up)
    assert digest(client) == digest(copy)
    assert client.dbsize() == copy.dbsize() > 15
    # Caps and randomness of the master do not matter to a replica that becomes one.
    copy.execute_command("REPLICAOF", "NO", "ONE")
    assert copy.execute_command("TAMIS.ADD", "of growing", "after") in (0, 1)


def test_restore_and_migrate(make_server):
    here, there = make_server(), make_server()
    client, other = here.client(), there.client()
    fill(client)
    for key in client.keys():
        if client.type(key) == b"tamis-flt":
            other.restore(key, 0, client.dump(key))
            assert other.execute_command("DEBUG", "DIGEST-VALUE", key) == client.execute_command(
                "DEBUG", "DIGEST-VALUE", key
            )
    client.execute_command("TAMIS.ADD", "moved", "a")
    assert client.migrate("127.0.0.1", there.port, "moved", 0, 5000) == b"OK"
    assert not client.exists("moved")
    assert other.execute_command("TAMIS.EXISTS", "moved", "a") == 1


def test_a_script_replicates_what_it_did(make_server):
    master = make_server()
    replica = make_server("--replicaof", f"127.0.0.1 {master.port}")
    client = master.client()
    wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up")
    script = "return redis.call('TAMIS.MADD', KEYS[1], unpack(ARGV))"
    assert client.eval(script, 1, "f", "a", "b") == [1, 1]
    client.sadd("keys", *range(500))
    script = "return redis.call('TAMIS.BUILD', KEYS[1], 'FROM', KEYS[2], 'ribbon', '0.01')"
    assert client.eval(script, 2, "g", "keys") == 500
    assert client.wait(1, 5000) == 1
    assert digest(client) == digest(replica.client())


def test_build_does_not_block_the_server(make_server):
    server = make_server()
    client = server.client()
    for start in range(0, 200_000, 20_000):
        client.sadd("keys", *range(start, start + 20_000))
    answers = []

    def build():
        answers.append(
            server.client().execute_command("TAMIS.BUILD", "f", "FROM", "keys", "ribbon", 0.001)
        )

    builder = threading.Thread(target=build)
    builder.start()
    wait_until(lambda: client.info("everything")["tamis_jobs_running"] == 1 or answers)
    pings = 0
    while not answers:
        pings += client.ping()
    builder.join()
    assert answers == [200_000] and pings > 10
    with pytest.raises(ResponseError, match="item exists"):
        client.execute_command("TAMIS.BUILD", "f", "FROM", "keys", "ribbon", 0.001)


def test_a_deleted_staged_build_is_refused(make_server):
    server = make_server()
    client = server.client()
    client.execute_command("TAMIS.BUILD", "f", "BEGIN", "ribbon", 0.0001)
    for start in range(0, 100_000, 10_000):
        client.execute_command("TAMIS.BUILD", "f", "KEYS", *range(start, start + 10_000))
    outcome = []

    def end():
        try:
            outcome.append(server.client().execute_command("TAMIS.BUILD", "f", "END"))
        except ResponseError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=end)
    thread.start()
    wait_until(lambda: client.info("everything")["tamis_jobs_running"] == 1 or outcome)
    client.delete("f")
    thread.join()
    if outcome != [100_000]:
        assert "changed while" in outcome[0]
        assert not client.exists("f")
