"""A cluster of three nodes: slots move while clients add and ask."""

import threading
import time

import pytest
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.exceptions import ClusterCrossSlotError

from conftest import SOAK, wait_until

CLIENTS = 8


def make_cluster(make_server):
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]
    nodes = [make_server(*options) for _ in range(3)]
    clients = [node.client() for node in nodes]
    bounds = [0, 5461, 10923, 16384]
    for index, client in enumerate(clients):
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[index], bounds[index + 1] - 1)
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
    for node in nodes[1:]:
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port)

    def agreed():
        states = [client.execute_command("CLUSTER", "INFO") for client in clients]
        ready = [b"cluster_state:ok", b"cluster_known_nodes:3"]
        return all(line in state for line in ready for state in states)

    wait_until(agreed)
    return nodes


def cluster_client(node):
    """Returns a client of the cluster that a node belongs to."""
    nodes = [ClusterNode("127.0.0.1", node.port)]
    return RedisCluster(startup_nodes=nodes, protocol=2, socket_timeout=120)


def identity(node):
    return node.client().execute_command("CLUSTER", "MYID").decode()


def move(slot, nodes, source, target):
    """Moves a slot with its keys, as `redis-cli --cluster reshard` does."""
    here, there = nodes[source].client(), nodes[target].client()
    there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", identity(nodes[source]))
    here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", identity(nodes[target]))
    while keys := here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
        words = ["127.0.0.1", nodes[target].port, "", 0, 5000, "KEYS"]
        here.execute_command("MIGRATE", *words, *keys)
    for client in [there, here, *(node.client() for node in nodes)]:
        client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", identity(nodes[target]))


def test_no_member_is_denied_while_slots_move(make_server):
    nodes = make_cluster(make_server)
    stop, failures = threading.Event(), []
    counts = [0] * CLIENTS

    def work(number):
        try:
            client = cluster_client(nodes[number % 3])
            key, added = f"filter {number}", []
            while not stop.is_set():
                items = [f"{number} {len(added) + i}" for i in range(20)]
                client.execute_command("TAMIS.MADD", key, *items)
                added += items
                recent = added[-200:]
                found = client.execute_command("TAMIS.MEXISTS", key, *recent)
                if found != [1] * len(recent):
                    failures.append(f"{key}: {found}")
                counts[number] = len(added)
            found = client.execute_command("TAMIS.MEXISTS", key, *added)
            if found != [1] * len(added):
                failures.append(f"{key} at the end")
        except Exception as error:
            failures.append(repr(error))

    workers = [threading.Thread(target=work, args=[number]) for number in range(CLIENTS)]
    for worker in workers:
        worker.start()
    wait_until(lambda: failures or all(counts))
    slots = [key_slot(f"filter {number}".encode()) for number in range(CLIENTS)]
    place = {slot: sum(slot >= bound for bound in [5461, 10923]) for slot in slots}
    moved, deadline = 0, time.time() + (120 if SOAK else 4)
    while time.time() < deadline and not failures:
        for slot in slots:
            target = (place[slot] + 1) % 3
            move(slot, nodes, place[slot], target)
            place[slot] = target
            moved += 1
    stop.set()
    for worker in workers:
        worker.join()
    assert not failures
    assert moved >= CLIENTS and min(counts) > 0


def test_keys_of_a_command_share_a_slot(make_server):
    nodes = make_cluster(make_server)
    client = cluster_client(nodes[0])
    seed = "0" * 31 + "1"
    for key in ["{one}a", "{one}b"]:
        client.execute_command("TAMIS.RESERVE", key, "bloom", 1000, 0.01, "SEED", seed)
        client.execute_command("TAMIS.ADD", key, key)
    client.execute_command("TAMIS.MERGE", "{one}a", "{one}b")
    assert client.execute_command("TAMIS.MEXISTS", "{one}a", "{one}a", "{one}b") == [1, 1]
    client.sadd("{one}keys", *range(100))
    build = ["TAMIS.BUILD", "{one}f", "FROM", "{one}keys", "ribbon", 0.01]
    assert client.execute_command(*build) == 100
    raw = nodes[0].client()
    for command in [
        ["TAMIS.MERGE", "a", "b"],
        ["TAMIS.BUILD", "a", "FROM", "b", "ribbon", 0.01],
    ]:
        with pytest.raises(ClusterCrossSlotError):
            raw.execute_command(*command)
