"""One logical filter over many keys of a Redis or Valkey cluster, for redis-py.

    from redis.cluster import RedisCluster
    from tamis_redis import ShardedFilter

    seen = ShardedFilter(RedisCluster(host="127.0.0.1"), "seen", shards=64)
    seen.add(["apple", "pear"])
    seen.contains(["apple", "fig"])     # [True, False]

The shard of an item is `crc32(item) * shards >> 32`, and its key is `name:{shard}`, so that shards lie in
different slots. The number of shards is part of the filter: choose it once, some times the number of nodes
that the cluster may grow to.
"""

import zlib

CHUNK_BYTES = 1 << 20


class ShardedFilter:
    """A filter in `shards` keys. The client is `redis.Redis` or `redis.cluster.RedisCluster`."""

    def __init__(self, client, name, shards):
        if not 1 <= shards <= 16384:
            raise ValueError("a filter has 1 to 16384 shards")
        self.client, self.name, self.shards = client, name, shards

    def key(self, shard):
        """Returns the key of a shard."""
        return f"{self.name}:{{{shard}}}"

    def shard(self, item):
        """Returns the shard of an item: bytes, or anything whose `str` is the item."""
        return zlib.crc32(_bytes(item)) * self.shards >> 32

    def reserve(self, kind, capacity, fpr, *options):
        """Makes the shards of a filter for `capacity` items in all. Options are those of TAMIS.RESERVE."""
        # Items are spread at random: a shard gets a few more than its part.
        part = -(-capacity // self.shards)
        part += int(4 * part**0.5) + 1 if self.shards > 1 else 0
        words = [kind, part, fpr, *options]
        self._send(["TAMIS.RESERVE", self.key(s), *words] for s in range(self.shards))

    def add(self, items):
        """Adds items. Returns for each whether it was certainly new."""
        return self._each("TAMIS.MADD", items)

    def contains(self, items):
        """Returns for each item whether it may be in the filter; False is certain."""
        return self._each("TAMIS.MEXISTS", items)

    def remove(self, items):
        """Removes items that were added. Returns for each whether it was in."""
        return self._each("TAMIS.REM", items)

    def delete(self):
        """Deletes all shards."""
        self._send(["UNLINK", self.key(s)] for s in range(self.shards))

    def _each(self, command, items):
        """Sends one command for each shard that has items, all at once."""
        items = [_bytes(item) for item in items]
        places = {}
        for index, item in enumerate(items):
            places.setdefault(self.shard(item), []).append(index)
        replies = self._send(
            [command, self.key(shard), *(items[index] for index in indexes)]
            for shard, indexes in places.items()
        )
        out = [False] * len(items)
        for indexes, reply in zip(places.values(), replies):
            for index, value in zip(indexes, reply):
                if isinstance(value, Exception):
                    raise value
                out[index] = bool(value)
        return out

    def _send(self, commands):
        pipeline = self.client.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        return pipeline.execute()


def load(client, key, path):
    """Loads a `.tamis` file into a key. What the key held is replaced once the whole file is there."""
    staging = f"{{{_tag(key)}}}:loading"
    client.delete(staging)
    with open(path, "rb") as file:
        offset = 0
        while chunk := file.read(CHUNK_BYTES):
            missing = client.execute_command("TAMIS.LOAD", staging, offset, chunk)
            offset += len(chunk)
    if missing != 0:
        client.delete(staging)
        raise ValueError(f"{path} is truncated")
    client.rename(staging, key)


def dump(client, key, path):
    """Writes the filter of a key to a `.tamis` file."""
    with open(path, "wb") as file:
        offset = 0
        while True:
            offset, chunk = client.execute_command("TAMIS.DUMP", key, offset)
            file.write(chunk)
            if offset == 0:
                return


def _bytes(item):
    return item if isinstance(item, bytes) else str(item).encode()


def _tag(key):
    """Returns the part of a key that decides its slot."""
    start = key.find("{")
    end = key.find("}", start + 1)
    return key[start + 1 : end] if 0 <= start < end - 1 else key
