#!/usr/bin/env python3
"""Measures the module on a server of its own, and prints the tables of README.md.

    cargo build --release
    TAMIS_MODULE=target/release/libtamis_redis.so python3 bench.py [--keys 1000000] [--server redis-server]

Times are CPU time of the server process, from /proc, so that clients and other programs do not count.
"""

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

BATCH, PIPELINE = 100, 16
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="tamis-bench-")
        self.port = 7790 + os.getpid() % 1000
        self.program = program
        self.start()

    def start(self):
        module = Path(os.environ["TAMIS_MODULE"]).resolve()
        command = [self.program, "--port", str(self.port), "--dir", self.folder, "--save", ""]
        command += ["--enable-debug-command", "yes", "--loadmodule", str(module)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.client = redis.Redis(port=self.port, protocol=2, socket_timeout=None)
        while True:
            try:
                self.client.ping()
                return
            except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
                time.sleep(0.01)

    def cpu(self):
        """Returns the seconds of CPU time that the server has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


def packed(*command):
    """Returns a command as bytes of the protocol."""
    words = [str(word).encode() for word in command]
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def cpu_per_command(server, commands, seconds=4.0):
    """Runs pipelines of ready-made commands. Returns the server's CPU time per command in us."""
    connection = server.client.connection_pool.get_connection()
    pipelines = [b"".join(commands[i : i + PIPELINE]) for i in range(0, len(commands), PIPELINE)]
    done, before, end = 0, server.cpu(), time.time() + seconds
    while time.time() < end:
        for pipeline in pipelines:
            connection._sock.sendall(pipeline)
            for _ in range(PIPELINE):
                connection.read_response()
            done += PIPELINE
    server.client.connection_pool.release(connection)
    return (server.cpu() - before) / done * 1e6


def item(number):
    return f"key:{number}"


def bench_queries(server, keys):
    client = server.client
    client.flushall()
    with client.pipeline(transaction=False) as pipe:
        for number in range(keys):
            pipe.set(item(number), number)
            if number % 1000 == 999:
                pipe.execute()
    kinds = ["split_block_bloom", "bloom", "growing", "cuckoo"]
    for kind in kinds:
        client.execute_command("TAMIS.RESERVE", kind, kind, keys, 0.01)
    client.bf().reserve("bf", 0.01, keys)
    for start in range(0, keys, 1000):
        items = [item(number) for number in range(start, min(start + 1000, keys))]
        for kind in [*kinds, "bf"]:
            client.execute_command("TAMIS.MADD", kind, *items)
    # Half of the items are members.
    asked = [item((number * 7919) % (2 * keys)) for number in range(BATCH * PIPELINE * 8)]
    batches = [asked[i : i + BATCH] for i in range(0, len(asked), BATCH)]
    rows = {"MGET": [packed("MGET", *batch) for batch in batches]}
    for kind in kinds:
        rows[f"TAMIS.MEXISTS, {kind}"] = [packed("TAMIS.MEXISTS", kind, *b) for b in batches]
    rows["BF.MEXISTS"] = [packed("BF.MEXISTS", "bf", *batch) for batch in batches]
    times = {name: [] for name in rows}
    for _ in range(3):
        for name, commands in rows.items():
            times[name].append(cpu_per_command(server, commands, 2.0))
    best = {name: min(measured) for name, measured in times.items()}
    print(f"\n| {BATCH} items, {keys} keys, 1 % | us of server CPU | throughput, MGET = 1 |")
    print("| --- | --- | --- |")
    for name, measured in best.items():
        print(f"| `{name.split(',')[0]}`{','.join([''] + name.split(',')[1:])} | {measured:.1f} | {best['MGET'] / measured:.2f} |")


def bench_memory(server, keys):
    client = server.client
    print(f"\n| {keys} keys | bytes per key | bits per key | false positives |")
    print("| --- | --- | --- | --- |")
    for name, command in {
        "`TAMIS.ADD` (`growing`)": "TAMIS.MADD",
        "`BF.ADD`": "BF.MADD",
        "`CF.ADD`": "CF.INSERT",
        "`CF.RESERVE` with the capacity": "CF.INSERT",
        "`CF.RESERVE` with the capacity, `EXPANSION 0`": "CF.INSERT",
        "`SADD`": "SADD",
    }.items():
        client.delete("m")
        if "RESERVE" in name:
            options = ["EXPANSION", 0] if "EXPANSION" in name else []
            client.execute_command("CF.RESERVE", "m", keys, *options)
        items = ["ITEMS"] if command == "CF.INSERT" else []
        for start in range(0, keys, 1000):
            client.execute_command(command, "m", *items, *(item(n) for n in range(start, start + 1000)))
        bytes_per_key = client.memory_usage("m", samples=0) / keys
        false = "0"
        if command != "SADD":
            asked = [f"no:{n}" for n in range(100_000)]
            false = f"{sum(client.execute_command('TAMIS.MEXISTS', 'm', *asked)) / 1000:.2f} %"
        print(f"| {name} | {bytes_per_key:.2f} | {bytes_per_key * 8:.1f} | {false} |")
    bits = redisbloom_bits(keys)
    print(f"| RedisBloom's `BF.ADD`, by its formula | {bits / 8:.2f} | {bits:.1f} | below 1 % |")


def redisbloom_bits(keys, capacity=100, error=0.01, expansion=2):
    """Returns the bits per key of RedisBloom's BF by its formula: stages of half the rate before."""
    bits, room = 0, 0
    while room < keys:
        error /= 2
        bits += capacity * -math.log2(error) / math.log(2)
        room, capacity = room + capacity, capacity * expansion
    return bits / keys


class RedisBloomCuckoo:
    """RedisBloom's cuckoo filter: tables of 2^n buckets of 2 slots of 8 bits, and 20 moves until it adds one."""

    def __init__(self, capacity, bucket=2, moves=20):
        self.bucket, self.moves = bucket, moves
        self.mask = 2 ** math.ceil(math.log2(capacity / bucket)) - 1
        self.tables, self.keys = [], 0
        self.add_table()

    def add_table(self):
        self.tables.append([[] for _ in range(self.mask + 1)])

    def other(self, place, fingerprint):
        return (place ^ fingerprint * 0x5BD1E995) & self.mask

    def locate(self, hash):
        fingerprint = hash % 255 + 1
        place = hash & self.mask
        return fingerprint, place, self.other(place, fingerprint)

    def contains(self, hash):
        fingerprint, *places = self.locate(hash)
        return any(fingerprint in table[place] for table in self.tables for place in places)

    def insert(self, hash):
        if not self.try_insert(hash):
            self.add_table()
            self.try_insert(hash)
        self.keys += 1

    def try_insert(self, hash):
        fingerprint, *places = self.locate(hash)
        for table in reversed(self.tables):
            for place in places:
                if len(table[place]) < self.bucket:
                    table[place].append(fingerprint)
                    return True
        table, place, moved = self.tables[-1], places[0], []
        for step in range(self.moves):
            bucket, slot = table[place], step % self.bucket
            moved.append((bucket, slot))
            bucket[slot], fingerprint = fingerprint, bucket[slot]
            place = self.other(place, fingerprint)
            if len(table[place]) < self.bucket:
                table[place].append(fingerprint)
                return True
        for bucket, slot in reversed(moved):
            bucket[slot], fingerprint = fingerprint, bucket[slot]
        return False

    def bits_per_key(self):
        return 8 * self.bucket * len(self.tables) * (self.mask + 1) / self.keys


def bench_cuckoo(server, keys):
    """Compares `CF.*` with a simulation of RedisBloom's filter, over one doubling of the number of keys."""
    client, asked = server.client, 100_000
    print("\n| reserved | keys | RedisBloom's tables | bits per key | rate | `CF.RESERVE` | rate | ratio at its rate |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios = []
    reserved = [round(keys * 2 ** (step / 8)) for step in range(9)]
    cases = [(capacity, capacity) for capacity in reserved] + [(keys, round(keys * 1.2))]
    for capacity, count in cases:
        chance = random.Random(count)
        theirs = RedisBloomCuckoo(capacity)
        for _ in range(count):
            theirs.insert(chance.getrandbits(64))
        their_rate = sum(theirs.contains(chance.getrandbits(64)) for _ in range(asked)) / asked
        client.delete("m")
        client.execute_command("CF.RESERVE", "m", capacity)
        for start in range(0, count, 1000):
            items = [item(n) for n in range(start, min(start + 1000, count))]
            client.execute_command("CF.INSERT", "m", "ITEMS", *items)
        bits = client.memory_usage("m") * 8 / count
        rate = sum(client.execute_command("CF.MEXISTS", "m", *(f"no:{n}" for n in range(asked)))) / asked
        # A fingerprint that is 1 bit longer halves the rate.
        ratio = (bits + math.log2(rate / their_rate)) / theirs.bits_per_key()
        ratios.append(ratio)
        print(
            f"| {capacity} | {count} | {len(theirs.tables)} | {theirs.bits_per_key():.1f} | {their_rate:.2%} "
            f"| {bits:.1f} | {rate:.2%} | {ratio:.2f} |"
        )
    print(f"\nMean of the first 9 ratios: {sum(ratios[:9]) / 9:.2f}")


def bench_save(server, mebibytes):
    client = server.client
    client.flushall()
    filters = 8
    for number in range(filters):
        keys = mebibytes * (1 << 23) // filters * 100 // 959
        client.execute_command("TAMIS.RESERVE", f"f{number}", "bloom", keys, 0.01)
        # Enough to touch every page.
        for start in range(0, 100_000, 1000):
            client.execute_command("TAMIS.MADD", f"f{number}", *range(start, start + 1000))
    used, peak = client.info("memory")["used_memory"], server.resident()
    client.config_set("rdbcompression", "no")
    start = time.time()
    client.bgsave()
    while client.info("persistence")["rdb_bgsave_in_progress"]:
        time.sleep(0.02)
    saved = time.time() - start
    # What the child has written to, and what the server has grown by.
    copied, growth = client.info("persistence")["rdb_last_cow_size"], server.resident() - peak
    server.process.kill()
    server.process.wait()
    start = time.time()
    server.start()
    loaded, cpu = time.time() - start, server.cpu()
    print("\n| filters | BGSAVE | memory written by the child | growth of the server | load | load, of CPU time |")
    print("| --- | --- | --- | --- | --- | --- |")
    rates = [f"{used / seconds / 1e6:.0f} MB/s" for seconds in [saved, loaded, cpu]]
    sizes = [f"{size / 2**20:.0f} MiB" for size in [used, copied, growth]]
    print(f"| {sizes[0]} | {rates[0]} | {sizes[1]} | {sizes[2]} | {rates[1]} | {rates[2]} |")


def bench_growth(server, keys):
    """Adds and asks one item at a time while a filter grows. The server measures the time in commands."""
    client = server.client
    commands = ["TAMIS.ADD", "TAMIS.EXISTS"]
    bounds = [1 << shift for shift in range(11)]
    print("\nCommands that took at most so many us, of 20000:\n")
    print(f"| `growing` at | command | {' | '.join(map(str, bounds))} | longest |")
    print("| --- | --- |" + " --- |" * (len(bounds) + 1))
    client.flushall()
    client.config_set("latency-tracking-info-percentiles", "100")
    at = 0
    for until in [keys // 100, keys // 10, keys]:
        while at < until - 20_000:
            client.execute_command("TAMIS.MADD", "g", *(item(n) for n in range(at, at + 1000)))
            at += 1000
        client.execute_command("CONFIG", "RESETSTAT")
        for number in range(at, at + 20_000):
            client.execute_command("TAMIS.ADD", "g", item(number))
            client.execute_command("TAMIS.EXISTS", "g", item(number))
        at += 20_000
        longest = client.info("latencystats")
        for command in commands:
            [_, histogram] = client.execute_command("LATENCY", "HISTOGRAM", command)
            counts = dict(zip(*[iter(histogram[3])] * 2))
            row = [max((n for us, n in counts.items() if us <= bound), default=0) for bound in bounds]
            most = longest[f"latency_percentiles_usec_{command}"]["p100"]
            print(f"| {until} keys | `{command}` | {' | '.join(map(str, row))} | {most:.0f} us |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--server", default=shutil.which("redis-server"))
    parser.add_argument("--only", choices=["queries", "memory", "cuckoo", "save", "growth"])
    arguments = parser.parse_args()
    server = Server(arguments.server)
    sizes = {"queries": arguments.keys, "memory": arguments.keys}
    sizes |= {"cuckoo": 1 << 17, "save": arguments.mebibytes, "growth": arguments.keys}
    try:
        for name, size in sizes.items():
            if arguments.only in (None, name):
                globals()[f"bench_{name}"](server, size)
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
