"""Every TAMIS.* command, its replies and its errors."""

import random
import time

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from conftest import SOAK, Server, wait_until

INSERT = ["bloom", "bloom_g", "split_block_bloom", "counting_bloom", "hash_compaction", "quotient"]
INSERT += ["counting_quotient", "cuckoo", "morton", "tinyset", "removable_tinyset", "broom"]
INSERT += ["adaptive_bloom", "adaptive_quotient", "spectral_bloom", "growing", "scalable_bloom"]
INSERT += ["removable_spectral_bloom", "exact", "adaptive_cuckoo"]
STATIC = ["binary_fuse", "xor", "ribbon", "xorsat"]
KINDS = [*INSERT, *STATIC, "bloomier", "sliding"]
# With it, two different items of a test are told apart in every run or in none.
SEED = ["SEED", "0" * 31 + "5"]


def fails(client, text, *command):
    with pytest.raises(ResponseError, match=text):
        client.execute_command(*command)


def make(client, kind, keys=300):
    """Makes a filter of any kind."""
    client.delete("f")
    if kind == "sliding":
        client.execute_command("TAMIS.RESERVE", "f", kind, keys, 0.05)
        client.execute_command("TAMIS.PUSH", "f", *range(keys))
    elif kind in INSERT:
        client.execute_command("TAMIS.RESERVE", "f", kind, keys, 0.05)
        client.execute_command("TAMIS.MADD", "f", *range(keys * 2 // 3))
    else:
        client.delete("keys")
        client.rpush("keys", *range(keys))
        client.execute_command("TAMIS.BUILD", "f", "FROM", "keys", kind, 0.05)


def info(client, key):
    reply = client.execute_command("TAMIS.INFO", key)
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])}


@pytest.mark.parametrize("kind", INSERT)
def test_members_are_never_denied(r, kind):
    r.execute_command("TAMIS.RESERVE", "f", kind, 5000, 0.01)
    keys = [f"key {i}" for i in range(3000)]
    added = r.execute_command("TAMIS.MADD", "f", *keys)
    assert sum(added) > 2900
    assert r.execute_command("TAMIS.MEXISTS", "f", *keys) == [1] * 3000
    strangers = r.execute_command("TAMIS.MEXISTS", "f", *(f"no {i}" for i in range(3000)))
    assert sum(strangers) < 3000 * 0.03
    assert r.execute_command("TAMIS.EXISTS", "f", "key 7") == 1
    about = info(r, "f")
    assert about["kind"].decode() == kind and about["state"] == b"ready"
    assert about["hash"] == b"secure" and about["items"] == b"text or bytes"


def test_an_unknown_size_needs_no_reserve(r):
    assert r.execute_command("TAMIS.ADD", "new", "a") == 1
    others = [f"b {i}" for i in range(100)]
    [first, *new, last] = r.execute_command("TAMIS.ADDNX", "new", "a", *others, "b 0")
    assert first == 0 and sum(new) > 90 and last == 0
    assert info(r, "new")["kind"] == b"growing"
    for start in range(0, 50_000, 5000):
        r.execute_command("TAMIS.MADD", "new", *range(start, start + 5000))
    assert r.execute_command("TAMIS.MEXISTS", "new", *range(50_000)) == [1] * 50_000
    assert abs(r.memory_usage("new") - info(r, "new")["memory"]) < 200


def test_exists_of_a_missing_key_is_no(r):
    assert r.execute_command("TAMIS.EXISTS", "none", "a") == 0
    assert r.execute_command("TAMIS.MEXISTS", "none", "a", "b") == [0, 0]
    assert r.execute_command("TAMIS.COUNT", "none", "a") == [0]


def test_remove_and_count(r):
    r.execute_command("TAMIS.RESERVE", "f", "counting_quotient", 1000, 0.001, *SEED)
    assert r.execute_command("TAMIS.MADD", "f", "a", "a", "b") == [1, 0, 1]
    assert r.execute_command("TAMIS.COUNT", "f", "a", "b", "c") == [2, 1, 0]
    assert r.execute_command("TAMIS.INCRBY", "f", "b", 40) == 41
    assert r.execute_command("TAMIS.REM", "f", "a", "a", "a", "never") == [1, 1, 0, 0]
    assert r.execute_command("TAMIS.MEXISTS", "f", "a", "b") == [0, 1]
    fails(r, "at most 100000", "TAMIS.INCRBY", "f", "b", 100_001)
    fails(r, "does not support remove", "TAMIS.REM", reserve(r, "bloom"), "a")
    fails(r, "does not support count", "TAMIS.COUNT", reserve(r, "bloom"), "a")
    fails(r, "not found", "TAMIS.REM", "none", "a")


def test_growing_removes_and_counts(r):
    r.execute_command("TAMIS.RESERVE", "f", "growing", 1000, 0.01, *SEED)
    assert r.execute_command("TAMIS.MADD", "f", "a", "a", "b") == [1, 0, 1]
    assert r.execute_command("TAMIS.COUNT", "f", "a", "b", "c") == [2, 1, 0]
    assert r.execute_command("TAMIS.REM", "f", "a", "c") == [1, 0]
    assert r.execute_command("TAMIS.COUNT", "f", "a") == [1]


def reserve(client, kind, key="other"):
    client.delete(key)
    client.execute_command("TAMIS.RESERVE", key, kind, 1000, 0.01)
    return key


def test_a_full_filter_says_so(r):
    r.execute_command("TAMIS.RESERVE", "f", "cuckoo", 100, 0.01)
    full = None
    for i in range(1000):
        try:
            r.execute_command("TAMIS.ADD", "f", i)
        except ResponseError as error:
            full = error
            break
    assert "the filter is full" in str(full) and i >= 100
    replies = r.execute_command("TAMIS.MADD", "f", *range(2000, 2100))
    assert any(isinstance(reply, ResponseError) for reply in replies)
    assert r.execute_command("TAMIS.MEXISTS", "f", *range(i)) == [1] * i


def test_window(r):
    r.execute_command("TAMIS.RESERVE", "w", "sliding", 1000, 0.01, *SEED)
    assert r.execute_command("TAMIS.PUSH", "w", "a", "a", "b") == [0, 1, 0]
    assert r.execute_command("TAMIS.EXISTS", "w", "a") == 1
    for start in range(0, 5000, 500):
        r.execute_command("TAMIS.PUSH", "w", *range(start, start + 500))
    assert r.execute_command("TAMIS.MEXISTS", "w", *range(4000, 5000)) == [1] * 1000
    assert sum(r.execute_command("TAMIS.MEXISTS", "w", *range(1000))) < 100
    fails(r, "does not support window", "TAMIS.PUSH", reserve(r, "bloom"), "a")
    fails(r, "does not support insert", "TAMIS.ADD", "w", "a")


def test_window_of_time(r):
    r.execute_command("TAMIS.RESERVE", "w", "sliding", 1000, 0.01, "WINDOW", 8000, *SEED)
    assert r.execute_command("TAMIS.PUSHAT", "w", 100_000, "a", "b", "a") == [0, 0, 1]
    assert r.execute_command("TAMIS.PUSHAT", "w", 107_000, "a") == [1]
    # b is 10 s old, a 3 s. A clock that runs backwards stands still.
    assert r.execute_command("TAMIS.PUSHAT", "w", 110_000) == []
    assert r.execute_command("TAMIS.MEXISTS", "w", "a", "b") == [1, 0]
    assert r.execute_command("TAMIS.PUSHAT", "w", 50_000, "c") == [0]
    assert r.execute_command("TAMIS.MEXISTS", "w", "a", "b", "c") == [1, 0, 1]
    # The time of the server is decades later.
    assert r.execute_command("TAMIS.PUSH", "w", "a") == [0]
    assert r.execute_command("TAMIS.PUSH", "w", "a") == [1]
    r.execute_command("TAMIS.RESERVE", "short", "sliding", 1000, 0.01, "WINDOW", 200)
    assert r.execute_command("TAMIS.PUSH", "short", "a") == [0]
    time.sleep(0.3)
    assert r.execute_command("TAMIS.PUSH", "short", "a") == [0]
    fails(r, "no such setting", "TAMIS.RESERVE", "x", "bloom", 10, 0.01, "WINDOW", 5)
    fails(r, "not a valid number", "TAMIS.RESERVE", "x", "sliding", 10, 0.01, "WINDOW", "soon")
    fails(r, "ticks|between|1 to", "TAMIS.RESERVE", "x", "sliding", 10, 0.01, "WINDOW", 0)
    fails(r, "not a valid number", "TAMIS.PUSHAT", "w", "now", "a")
    fails(r, "does not support window", "TAMIS.PUSHAT", reserve(r, "bloom"), 5, "a")


def test_integers(r):
    r.execute_command("TAMIS.RESERVE", "i", "bloom", 1000, 0.001, "INTEGERS")
    r.execute_command("TAMIS.MADD", "i", 7, "-3", 2**64 - 1)
    assert r.execute_command("TAMIS.MEXISTS", "i", "007", "-3", 2**64 - 1, 8) == [1, 1, 1, 0]
    fails(r, "integers", "TAMIS.ADD", "i", "seven")
    fails(r, "integers", "TAMIS.EXISTS", "i", str(2**64))


def test_merge(r):
    for key, items in {"{m}a": [1, 2], "{m}b": [3], "{m}c": [4]}.items():
        r.execute_command("TAMIS.RESERVE", key, "bloom", 1000, 0.001, *SEED)
        r.execute_command("TAMIS.MADD", key, *items)
    r.execute_command("TAMIS.MERGE", "{m}a", "{m}b", "{m}c")
    assert r.execute_command("TAMIS.MEXISTS", "{m}a", 1, 2, 3, 4, 5) == [1, 1, 1, 1, 0]
    r.execute_command("TAMIS.MERGE", "{m}new", "{m}b", "{m}c")
    assert r.execute_command("TAMIS.MEXISTS", "{m}new", 1, 3, 4) == [0, 1, 1]
    r.execute_command("TAMIS.RESERVE", "{m}other", "bloom", 1000, 0.001)
    fails(r, "hash or seed", "TAMIS.MERGE", "{m}a", "{m}b", "{m}other")
    fails(r, "not found", "TAMIS.MERGE", "{m}a", "{m}none")
    fails(r, "does not support merge", "TAMIS.MERGE", "{m}x", reserve(r, "cuckoo"), "other")


def test_adapt(r):
    r.execute_command("TAMIS.RESERVE", "f", "broom", 200, 0.1)
    members = [f"member {i}" for i in range(200)]
    r.execute_command("TAMIS.MADD", "f", *members)
    strangers = [f"stranger {i}" for i in range(2000)]
    yes = r.execute_command("TAMIS.MEXISTS", "f", *strangers)
    false = [stranger for stranger, yes in zip(strangers, yes) if yes]
    assert 20 < len(false) < 600
    first, last = r.execute_command("TAMIS.ADAPT", "f", false[0])
    assert int(first) <= int(last)
    for stranger in false[:20]:
        assert r.execute_command("TAMIS.ADAPT", "f", stranger, *members) == 1
        assert r.execute_command("TAMIS.EXISTS", "f", stranger) == 0
    assert r.execute_command("TAMIS.MEXISTS", "f", *members) == [1] * 200
    fails(r, "does not support adapt", "TAMIS.ADAPT", reserve(r, "bloom"), "a")


@pytest.mark.parametrize("kind", STATIC)
def test_build_from_a_set(r, kind):
    keys = [f"key {i}" for i in range(5000)]
    r.sadd("{b}keys", *keys)
    assert r.execute_command("TAMIS.BUILD", "{b}f", "FROM", "{b}keys", kind, 0.01) == 5000
    assert r.execute_command("TAMIS.MEXISTS", "{b}f", *keys) == [1] * 5000
    strangers = r.execute_command("TAMIS.MEXISTS", "{b}f", *range(5000))
    assert sum(strangers) < 5000 * 0.03
    fails(r, "does not support insert", "TAMIS.ADD", "{b}f", "more")
    fails(r, "item exists", "TAMIS.BUILD", "{b}f", "FROM", "{b}keys", kind, 0.01)


def test_build_from_other_types(r):
    keys = [f"key {i}" for i in range(2500)]
    r.rpush("list", *keys)
    r.zadd("sorted", {key: 1 for key in keys})
    r.hset("hash", mapping={key: i for i, key in enumerate(keys)})
    for source in ["list", "sorted"]:
        assert r.execute_command("TAMIS.BUILD", f"of {source}", "FROM", source, "ribbon", 0.01) == 2500
        assert r.execute_command("TAMIS.MEXISTS", f"of {source}", *keys) == [1] * 2500
    assert r.execute_command("TAMIS.BUILD", "map", "FROM", "hash", "bloomier", 0.001) == 2500
    assert r.execute_command("TAMIS.GET", "map", *keys) == list(range(2500))
    assert r.execute_command("TAMIS.GET", "map", *(f"no {i}" for i in range(100))).count(None) > 90
    assert r.execute_command("TAMIS.SET", "map", "key 3", 77) == 1
    assert r.execute_command("TAMIS.GET", "map", "key 3", "key 4") == [77, 4]
    fails(r, "does not fit", "TAMIS.SET", "map", "key 3", 1 << 40)
    assert r.execute_command("TAMIS.BUILD", "b", "FROM", "list", "bloom", 0.01) == 2500
    r.set("text", "x")
    fails(r, "WRONGTYPE", "TAMIS.BUILD", "x", "FROM", "text", "ribbon", 0.01)
    fails(r, "not found", "TAMIS.BUILD", "x", "FROM", "none", "ribbon", 0.01)
    r.hset("words", "a", "b")
    fails(r, "value of a field", "TAMIS.BUILD", "x", "FROM", "words", "bloomier", 0.01)


def test_build_from_staged_keys(r):
    r.execute_command("TAMIS.BUILD", "f", "BEGIN", "binary_fuse", 0.01)
    assert info(r, "f")["state"] == b"staged"
    fails(r, "not built yet", "TAMIS.EXISTS", "f", "a")
    for start in range(0, 4000, 1000):
        staged = r.execute_command("TAMIS.BUILD", "f", "KEYS", *range(start, start + 1000))
    assert staged == 4000
    assert r.execute_command("TAMIS.BUILD", "f", "END") == 4000
    assert r.execute_command("TAMIS.MEXISTS", "f", *range(4000)) == [1] * 4000
    fails(r, "no build was begun", "TAMIS.BUILD", "f", "END")
    r.execute_command("TAMIS.BUILD", "map", "BEGIN", "bloomier", 0.01)
    r.execute_command("TAMIS.BUILD", "map", "ENTRIES", "a", 5, "b", 6)
    assert r.execute_command("TAMIS.BUILD", "map", "END") == 2
    assert r.execute_command("TAMIS.GET", "map", "a", "b") == [5, 6]
    fails(r, "syntax", "TAMIS.BUILD", "g", "NONSENSE")
    fails(r, "24 bytes", "TAMIS.BUILD", begin(r), "HASHES", "short")


def begin(client):
    client.execute_command("TAMIS.BUILD", "staged", "BEGIN", "ribbon", 0.01)
    return "staged"


def test_build_in_a_transaction(r):
    r.sadd("keys", *range(1000))
    with r.pipeline(transaction=True) as pipe:
        pipe.execute_command("TAMIS.BUILD", "f", "FROM", "keys", "ribbon", 0.01)
        pipe.execute_command("TAMIS.EXISTS", "f", 5)
        assert pipe.execute() == [1000, 1]


def dump(client, key, count=None):
    offset, chunks = 0, []
    while True:
        count_words = ["COUNT", count] if count else []
        offset, chunk = client.execute_command("TAMIS.DUMP", key, offset, *count_words)
        chunks.append(chunk)
        if offset == 0:
            return b"".join(chunks)


def load(client, key, data, chunk):
    for offset in range(0, len(data), chunk):
        missing = client.execute_command("TAMIS.LOAD", key, offset, data[offset : offset + chunk])
    return missing


@pytest.mark.parametrize("kind", ["growing", "cuckoo", "scalable_bloom"])
def test_dump_and_load(r, kind):
    r.execute_command("TAMIS.RESERVE", "f", kind, 20_000, 0.01)
    r.execute_command("TAMIS.MADD", "f", *range(20_000))
    data = dump(r, "f")
    assert data == dump(r, "f", 1000) and len(data) == info(r, "f")["serialized"]
    for chunk in [997, 65_536, 1 << 24]:
        r.delete("again")
        assert load(r, "again", data, chunk) == 0
        assert dump(r, "again") == data
        assert r.execute_command("TAMIS.MEXISTS", "again", *range(20_000)) == [1] * 20_000
    fails(r, "item exists", "TAMIS.LOAD", "again", 0, data)


def test_load_refuses_what_is_no_filter(r):
    r.execute_command("TAMIS.ADD", "f", "a")
    data = dump(r, "f")
    fails(r, "offset 0", "TAMIS.LOAD", "g", 5, data)
    assert r.execute_command("TAMIS.LOAD", "g", 0, data[:10]) is None
    fails(r, "the offset 10", "TAMIS.LOAD", "g", 5, data[5:])
    fails(r, "still being loaded", "TAMIS.EXISTS", "g", "a")
    assert info(r, "g")["state"] == b"loading" and info(r, "g")["received"] == 10
    # Begin again, interrupted or not.
    assert r.execute_command("TAMIS.LOAD", "g", 0, data[:300]) == len(data) - 300
    assert r.execute_command("TAMIS.LOAD", "g", 300, data[300:]) == 0
    for bad in [b"not a filter", data + b"x", data[:-1] + b"\x01", b""]:
        with pytest.raises(ResponseError):
            r.execute_command("TAMIS.LOAD", "bad", 0, bad)
        assert not r.exists("bad")
    # Another format, or another version of it.
    for at in range(16):
        other = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        with pytest.raises(ResponseError):
            r.execute_command("TAMIS.LOAD", "bad", 0, other)
        assert not r.exists("bad")
    r.execute_command("TAMIS.LOAD", "bad", 0, data[:300])
    flipped = bytes([data[400] ^ 1]) + data[401:]
    with pytest.raises(ResponseError):
        r.execute_command("TAMIS.LOAD", "bad", 300, data[300:400] + flipped)
    assert not r.exists("bad")


def test_plan(r):
    plans = r.execute_command("TAMIS.PLAN", 1_000_000, 0.01, "NEED", "insert", "NEED", "remove")
    kinds = [dict(zip(plan[::2], plan[1::2]))[b"kind"] for plan in plans]
    assert b"cuckoo" in kinds and b"bloom" not in kinds
    [plan] = r.execute_command("TAMIS.PLAN", 1_000_000, 0.01, "KIND", "bloom")
    plan = dict(zip(plan[::2], plan[1::2]))
    assert 1_190_000 < plan[b"bytes"] < 1_210_000
    fails(r, "there is no filter", "TAMIS.PLAN", 10, 0.1, "KIND", "sieve")
    fails(r, "there is no capability", "TAMIS.PLAN", 10, 0.1, "NEED", "magic")


def test_bad_input(r):
    r.set("text", "x")
    for command in ["ADD", "MADD", "EXISTS", "MEXISTS", "REM", "COUNT", "PUSH", "GET", "ADDNX"]:
        fails(r, "WRONGTYPE", f"TAMIS.{command}", "text", "a")
        fails(r, "wrong number of arguments", f"TAMIS.{command}", "text")
    fails(r, "WRONGTYPE", "TAMIS.INFO", "text")
    fails(r, "WRONGTYPE", "TAMIS.DUMP", "text", 0)
    fails(r, "WRONGTYPE", "TAMIS.LOAD", "text", 0, "x")
    fails(r, "not found", "TAMIS.INFO", "none")
    fails(r, "at least 1", "TAMIS.RESERVE", "f", "bloom", 0, 0.01)
    fails(r, "supported|possible|max-filter-bytes", "TAMIS.RESERVE", "f", "bloom", 1 << 60, 0.01)
    fails(r, "max-filter-bytes", "TAMIS.RESERVE", "f", "bloom", 1 << 37, 0.01)
    for rate in [0, 1, -1, 2, "nan", "inf"]:
        fails(r, "rate", "TAMIS.RESERVE", "f", "bloom", 10, rate)
    fails(r, "not a valid number", "TAMIS.RESERVE", "f", "bloom", "ten", 0.01)
    fails(r, "not a valid number", "TAMIS.RESERVE", "f", "bloom", -5, 0.01)
    fails(r, "there is no filter named sieve", "TAMIS.RESERVE", "f", "sieve", 10, 0.01)
    fails(r, "syntax error", "TAMIS.RESERVE", "f", "bloom", 10, 0.01, "PLEASE")
    fails(r, "syntax error", "TAMIS.RESERVE", "f", "bloom", 10, 0.01, "SEED")
    fails(r, "32 hexadecimal", "TAMIS.RESERVE", "f", "bloom", 10, 0.01, "SEED", "xyz")
    fails(r, "there is no hash", "TAMIS.RESERVE", "f", "bloom", 10, 0.01, "HASH", "md5")
    fails(r, "no such setting", "TAMIS.RESERVE", "f", "bloom", 10, 0.01, "SET", "x", 1)
    fails(r, "does not support insert", "TAMIS.RESERVE", "f", "ribbon", 10, 0.01)
    fails(r, "item exists", "TAMIS.RESERVE", reserve(r, "bloom"), "bloom", 10, 0.01)
    assert not r.exists("f")


def test_settings_and_seed(r):
    seed = "0123456789abcdef0123456789abcdef"
    for key in ["a", "b"]:
        r.execute_command("TAMIS.RESERVE", key, "cuckoo", 1000, 0.01, "SET", "f", 12, "SEED", seed)
        r.execute_command("TAMIS.MADD", key, *range(500))
    assert dump(r, "a") == dump(r, "b")
    settings = info(r, "a")["settings"]
    assert settings[settings.index(b"f") + 1] == b"12"
    r.execute_command("TAMIS.RESERVE", "c", "cuckoo", 1000, 0.01, "HASH", "fast")
    assert info(r, "c")["hash"] == b"fast"


def test_access_categories(shared_server):
    admin = shared_server.client()
    admin.flushall()
    admin.execute_command("TAMIS.ADD", "f", "a")
    # Redis 7.0 has no categories for modules, but each command can be allowed.
    allowed = "+@read" if b"tamis" in admin.execute_command("ACL", "CAT") else "+tamis.exists"
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">x", "~*", allowed)
    reader = shared_server.client(username="reader", password="x")
    assert reader.execute_command("TAMIS.EXISTS", "f", "a") == 1
    for command in [["TAMIS.ADD", "f", "b"], ["TAMIS.LOAD", "g", 0, "x"], ["BF.ADD", "f", "b"]]:
        with pytest.raises(NoPermissionError):
            reader.execute_command(*command)
    admin.execute_command("ACL", "SETUSER", "reader", "resetkeys", "~mine:*")
    with pytest.raises(NoPermissionError):
        reader.execute_command("TAMIS.EXISTS", "f", "a")
    assert reader.execute_command("TAMIS.EXISTS", "mine:f", "a") == 0
    admin.execute_command("ACL", "DELUSER", "reader")


def test_a_chunk_at_a_time_of_one_byte(r):
    r.execute_command("TAMIS.RESERVE", "f", "bloom", 10, 0.1)
    r.execute_command("TAMIS.ADD", "f", "a")
    data = dump(r, "f")
    assert load(r, "g", data, 1) == 0
    assert dump(r, "g") == data


def test_a_load_keeps_the_time_to_live(r):
    r.execute_command("TAMIS.ADD", "f", "a")
    data = dump(r, "f")
    r.execute_command("TAMIS.LOAD", "g", 0, data[:100])
    r.expire("g", 1000)
    r.execute_command("TAMIS.LOAD", "g", 100, data[100:200])
    assert 0 < r.ttl("g") <= 1000
    assert r.execute_command("TAMIS.LOAD", "g", 200, data[200:]) == 0
    assert 0 < r.ttl("g") <= 1000


def test_large_items_and_all_bytes(r):
    # The largest item of a client has 512 MB.
    item = bytes(range(256)) * ((1 << 21) if SOAK else 40_000)
    r.execute_command("TAMIS.RESERVE", "f", "growing", 1000, 0.01, *SEED)
    assert r.execute_command("TAMIS.ADD", "f", item) == 1
    assert r.execute_command("TAMIS.EXISTS", "f", item) == 1
    assert r.execute_command("TAMIS.EXISTS", "f", item[:-1]) == 0
    assert r.execute_command("TAMIS.ADD", "f", b"") == 1
    assert r.execute_command("TAMIS.EXISTS", "f", b"") == 1


def test_docs_and_keys(r):
    docs = r.execute_command("COMMAND DOCS", "tamis.add")
    assert b"adds an item" in docs[1][1]
    assert r.command_getkeys("TAMIS.ADD", "k", "item") == ["k"]
    assert r.command_getkeys("TAMIS.MERGE", "a", "b", "c") == ["a", "b", "c"]
    build = ["TAMIS.BUILD", "f", "FROM", "s", "ribbon", 0.01]
    assert r.command_getkeys(*build) == ["f", "s"]
    section = r.info("everything")
    assert section["tamis_used_bytes"] >= 0 and section["tamis_jobs_running"] == 0


def test_resp3(shared_server):
    client = shared_server.client(protocol=3)
    client.flushall()
    client.execute_command("TAMIS.RESERVE", "f", "growing", 1000, 0.01, *SEED)
    assert client.execute_command("TAMIS.ADD", "f", "a") is True
    assert client.execute_command("TAMIS.MEXISTS", "f", "a", "b") == [True, False]
    assert client.execute_command("TAMIS.INFO", "f")[b"kind"] == b"growing"
    client.close()


def test_copy_rename_expire_and_unlink(r):
    r.execute_command("TAMIS.MADD", "f", *range(100_000))
    assert r.copy("f", "g")
    assert dump(r, "f") == dump(r, "g")
    more = next(i for i in range(100_000, 200_000) if r.execute_command("TAMIS.EXISTS", "g", i) == 0)
    r.execute_command("TAMIS.ADD", "g", more)
    assert r.execute_command("TAMIS.EXISTS", "f", more) == 0
    r.rename("g", "h")
    assert r.execute_command("TAMIS.EXISTS", "h", 5) == 1
    assert r.expire("h", 100) and r.type("h") == b"tamis-flt"
    before = r.info("everything")["tamis_used_bytes"]
    size = r.memory_usage("h")
    assert size > 150_000
    r.unlink("h")
    wait_until(lambda: r.info("everything")["tamis_used_bytes"] < before - size * 0.99)


@pytest.mark.parametrize("keys", [1000, 30_000])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_usage_is_what_the_server_frees(r, shared_server, kind, keys):
    # A new server allocates memory of its own now and then: the second or third time it does not.
    for _ in range(3):
        # A client of its own, whose buffers are freed before memory is measured.
        maker = shared_server.client()
        make(maker, kind, keys)
        maker.delete("keys")
        number = str(maker.client_id())
        maker.close()
        wait_until(lambda: number not in [client["id"] for client in r.client_list()])
        # The last key would take the server's own tables with it.
        r.set("kept", 1)
        usage, before = r.memory_usage("f"), r.info("memory")["used_memory"]
        r.delete("f")
        freed = before - r.info("memory")["used_memory"]
        # The key itself and constants of the kind, which do not grow, take less than 2000 bytes.
        if freed * 0.97 - 2000 < usage < freed * 1.03 + 1000:
            return
    pytest.fail(f"{usage} bytes stated, {freed} freed")


def test_caps(make_server):
    server = make_server(module_arguments=["max-filter-bytes", "1mb", "max-total-bytes", "2mb"])
    client = server.client()
    fails(client, "max-filter-bytes", "TAMIS.RESERVE", "f", "bloom", 10_000_000, 0.01)
    client.execute_command("TAMIS.RESERVE", "a", "bloom", 700_000, 0.01)
    client.execute_command("TAMIS.RESERVE", "b", "bloom", 700_000, 0.01)
    fails(client, "max-total-bytes", "TAMIS.RESERVE", "c", "bloom", 700_000, 0.01)
    client.delete("a", "b")
    refused = None
    for start in range(0, 3_000_000, 10_000):
        try:
            client.execute_command("TAMIS.MADD", "grow", *range(start, start + 10_000))
        except ResponseError as error:
            refused = error
            break
    assert "max-filter-bytes" in str(refused)
    assert client.memory_usage("grow") < (1 << 20) * 1.05
    assert client.execute_command("TAMIS.MEXISTS", "grow", *range(0, start, 7)) == [1] * len(
        range(0, start, 7)
    )


def test_wrong_module_arguments(program):
    for arguments in [["max-filter-bytes"], ["max-filter-bytes", "much"], ["sieve", "1"]]:
        with pytest.raises(RuntimeError):
            Server(program, module_arguments=arguments)


def test_random_commands_agree_with_a_model(r):
    """A multiset beside a growing filter: no member is denied, and counts are never too low."""
    random.seed(5)
    model = {}
    for step in range(300):
        items = [str(random.randrange(400)) for _ in range(random.randrange(1, 20))]
        if random.random() < 0.6:
            r.execute_command("TAMIS.MADD", "f", *items)
            for item in items:
                model[item] = model.get(item, 0) + 1
        else:
            held = [item for item in items if model.get(item, 0) > 0]
            for item in held:
                if model.get(item, 0) > 0:
                    assert r.execute_command("TAMIS.REM", "f", item) == [1]
                    model[item] -= 1
    members = [item for item, count in model.items() if count > 0]
    assert r.execute_command("TAMIS.MEXISTS", "f", *members) == [1] * len(members)
    counts = r.execute_command("TAMIS.COUNT", "f", *members)
    assert all(count >= model[item] for count, item in zip(counts, members))
