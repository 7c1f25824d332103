"""BF.* and CF.*: arguments, replies and errors as RedisBloom's clients expect them."""

import pytest
from redis.exceptions import ResponseError


@pytest.fixture
def plain(shared_server):
    """A client that does not parse the replies of BF.INFO."""
    client = shared_server.client()
    yield client
    client.close()


def fails(client, text, *command):
    with pytest.raises(ResponseError, match=text):
        client.execute_command(*command)


def test_bloom(r):
    bf = r.bf()
    assert bf.add("f", "a") == 1 and bf.add("f", "a") == 0
    assert bf.madd("f", "a", "b", "b") == [0, 1, 0]
    assert bf.exists("f", "a") == 1 and bf.exists("f", "no") == 0 and bf.exists("none", "a") == 0
    assert bf.mexists("f", "a", "no") == [1, 0] and bf.mexists("none", "a") == [0]
    assert bf.card("f") == 2 and bf.card("none") == 0
    assert bf.insert("g", ["a", "b"], capacity=10, error=0.001) == [1, 1]
    assert bf.insert("h", ["a"], expansion=4) == [1]
    fails(r, "not found", "BF.INSERT", "none", "NOCREATE", "ITEMS", "a")
    fails(r, "not found", "BF.INFO", "none")
    fails(r, "Unknown argument", "BF.INSERT", "g", "FAST", "ITEMS", "a")
    fails(r, "wrong number", "BF.INSERT", "g", "CAPACITY", "10")
    fails(r, "wrong number", "BF.INSERT", "g", "ITEMS")


def test_bloom_grows(r, plain):
    r.bf().reserve("f", 0.01, 100)
    for start in range(0, 20_000, 1000):
        r.bf().madd("f", *range(start, start + 1000))
    assert r.bf().mexists("f", *range(20_000)) == [1] * 20_000
    assert sum(r.bf().mexists("f", *(f"no {i}" for i in range(20_000)))) < 20_000 * 0.013
    assert plain.execute_command("BF.INFO", "f", "ITEMS")[0] > 19_000
    assert plain.execute_command("BF.INFO", "f", "CAPACITY")[0] > 19_000
    assert plain.execute_command("BF.INFO", "f", "EXPANSION") == [2]
    fails(r, "Invalid information", "BF.INFO", "f", "WEIGHT")


def test_bloom_that_does_not_scale(r, plain):
    r.bf().reserve("f", 0.01, 50, noScale=True)
    with pytest.raises(ResponseError, match="non scaling filter is full"):
        for i in range(1000):
            r.bf().add("f", i)
    replies = r.bf().madd("f", *range(1000, 1100))
    assert isinstance(replies[-1], ResponseError)
    assert r.bf().mexists("f", *range(i)) == [1] * i
    r.execute_command("BF.RESERVE", "g", 0.01, 50, "EXPANSION", 0)
    assert plain.execute_command("BF.INFO", "g", "EXPANSION") == [None]


def test_bloom_errors(r):
    fails(r, "bad error rate", "BF.RESERVE", "f", "x", 100)
    fails(r, "bad capacity", "BF.RESERVE", "f", 0.01, "x")
    fails(r, "0 < error rate range < 1", "BF.RESERVE", "f", 1.0, 100)
    fails(r, "0 < error rate range < 1", "BF.RESERVE", "f", 0, 100)
    fails(r, "capacity should be larger than 0", "BF.RESERVE", "f", 0.1, 0)
    fails(r, "bad expansion", "BF.RESERVE", "f", 0.1, 10, "EXPANSION", "x")
    fails(r, "Nonscaling filters cannot expand", "BF.RESERVE", "f", 0.1, 10, "NONSCALING", "EXPANSION", 2)
    fails(r, "syntax", "BF.RESERVE", "f", 0.1, 10, "PLEASE")
    r.bf().reserve("f", 0.01, 50)
    fails(r, "item exists", "BF.RESERVE", "f", 0.1, 10)
    r.set("text", "x")
    for command in ["BF.ADD", "BF.MADD", "BF.EXISTS", "BF.MEXISTS", "CF.ADD", "CF.DEL", "CF.COUNT"]:
        fails(r, "WRONGTYPE", command, "text", "a")
        fails(r, "wrong number", command, "text")


def test_cuckoo(r):
    cf = r.cf()
    assert cf.add("f", "a") == 1 and cf.add("f", "a") == 1 and cf.addnx("f", "a") == 0
    assert cf.count("f", "a") == 2 and cf.count("none", "a") == 0
    assert cf.delete("f", "a") == 1 and cf.delete("f", "a") == 1 and cf.delete("f", "a") == 0
    assert cf.exists("f", "a") == 0 and cf.mexists("f", "a", "b") == [0, 0]
    assert cf.insert("f", ["a", "b"]) == [1, 1]
    # Each has 4 fingerprints of 8 bits in its way, so some may seem to be there.
    [first, *new] = cf.insertnx("f", ["a", *(f"c {i}" for i in range(100))])
    assert first == 0 and sum(new) > 80
    fails(r, "Not found", "CF.DEL", "none", "a")
    fails(r, "not found", "CF.INSERT", "none", "NOCREATE", "ITEMS", "a")
    fails(r, "not found", "CF.INFO", "none")
    fails(r, "Bad capacity", "CF.RESERVE", "g", 0)
    fails(r, "BUCKETSIZE: value must be in the range", "CF.RESERVE", "g", 10, "BUCKETSIZE", 0)
    fails(r, "item exists", "CF.RESERVE", "f", 100)


def test_cuckoo_grows_and_shrinks(r):
    r.cf().reserve("f", 100)
    for start in range(0, 20_000, 1000):
        assert r.cf().insert("f", list(range(start, start + 1000))) == [1] * 1000
    assert r.cf().mexists("f", *range(20_000)) == [1] * 20_000
    for i in range(0, 20_000, 2):
        if i % 1000 == 0:
            assert r.cf().delete("f", i) == 1
    assert r.cf().mexists("f", *range(1, 20_000, 2)) == [1] * 10_000


def test_cuckoo_that_does_not_scale(r):
    r.execute_command("CF.RESERVE", "f", 1000, "EXPANSION", 0)
    replies = r.cf().insert("f", list(range(3000)))
    assert replies[:1000] == [1] * 1000 and replies[-1] == -1
    kept = replies.count(1)
    assert r.cf().mexists("f", *range(kept)) == [1] * kept
    fails(r, "Filter is full", "CF.ADD", "f", "more")
    assert r.cf().delete("f", 5) == 1 and r.cf().add("f", "more") == 1
    counts = [r.cf().count("f", i) for i in range(6, 206)]
    assert all(counts) and sum(counts) < 300


@pytest.mark.parametrize("family", ["BF", "CF"])
def test_scandump_and_loadchunk(r, family):
    items = range(100_000)
    r.execute_command(f"{family}.RESERVE", "f", *([0.01] if family == "BF" else []), 100_000)
    for start in range(0, 100_000, 10_000):
        r.execute_command(f"{family}.INSERT", "f", "ITEMS", *items[start : start + 10_000])
    chunks, iterator = [], 0
    while True:
        iterator, data = r.execute_command(f"{family}.SCANDUMP", "f", iterator)
        if iterator == 0:
            break
        chunks.append((iterator, data))
    assert r.execute_command(f"{family}.SCANDUMP", "f", 1 << 62) == [0, b""]
    for iterator, data in chunks:
        assert r.execute_command(f"{family}.LOADCHUNK", "g", iterator, data) == b"OK"
    before, after = (
        r.execute_command("DEBUG", "DIGEST-VALUE", key) for key in ["f", "g"]
    )
    assert before == after
    fails(r, "bad data", f"{family}.LOADCHUNK", "h", 1, "x")
    fails(r, "numeric", f"{family}.LOADCHUNK", "h", "x", "x")
    fails(r, "numeric", f"{family}.SCANDUMP", "f", "x")
    fails(r, "not found", f"{family}.SCANDUMP", "none", 0)


def test_cuckoo_filters_have_the_rate_of_redisbloom(r):
    # 4 fingerprints of 8 bits per lookup: 1.57 %.
    for options in [[], ["EXPANSION", 0]]:
        r.execute_command("CF.RESERVE", "f", 30_000, *options)
        r.execute_command("CF.INSERT", "f", "ITEMS", *range(30_000))
        found = r.execute_command("CF.MEXISTS", "f", *(f"no {i}" for i in range(50_000)))
        assert 0.008 < sum(found) / 50_000 < 0.02
        r.delete("f")
