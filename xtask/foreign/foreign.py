"""Filters of pyarrow, DuckDB, FastFilter, rbloom and poppy, and RedisBloom's algorithm written again.

`make DIR` writes the files of testdata/foreign, and `check DIR` reads the files that tamis has written
and asks for their members. Keys are the strings key-0 to key-399, the integers i * i - 1000 for i from
0 to 399, or both.
"""

import math
import pathlib
import struct
import sys

KEYS = range(400)
OTHERS = range(1_000_000, 1_010_000)


def text(i):
    return f"key-{i}"


def number(i):
    return i * i - 1000


def caller_hash(i):
    """The hash of the rbloom file: 128 bits, signed."""
    value = (i * 0x9E3779B97F4A7C15F39CC0605CEDC835 + 12345) % 2**128
    return value - 2**128 if value >= 2**127 else value


def fuse(width):
    """Returns a function that makes an empty filter of FastFilter's C library, and its functions."""
    from pyfusefilter._xorfilter import ffi, lib

    def call(name, *arguments):
        return getattr(lib, f"binary_fuse{width}_{name}")(*arguments)

    return ffi, call, lambda: ffi.new(f"binary_fuse{width}_t *")


def make_fuse(width, keys):
    ffi, call, new = fuse(width)
    filter = new()
    assert call("allocate", len(keys), filter)
    assert call("populate", ffi.new("uint64_t[]", keys), len(keys), filter)
    buffer = ffi.new("char[]", call("serialization_bytes", filter))
    call("serialize", filter, buffer)
    return bytes(ffi.buffer(buffer))


def murmur64a(data, seed):
    """MurmurHash64A."""
    mask, factor = 2**64 - 1, 0xC6A4A7935BD1E995
    value = seed ^ len(data) * factor & mask
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little") * factor & mask
        value = (value ^ (word ^ word >> 47) * factor & mask) * factor & mask
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 47) * factor & mask
    return value ^ value >> 47


class RedisBloom:
    """A scalable filter as BF.RESERVE, BF.ADD, BF.EXISTS, BF.SCANDUMP and BF.LOADCHUNK have it. No server
    has checked it: it follows the description of the program, and shares no code with tamis.
    """

    CHAIN, LAYER = struct.Struct("<QIII"), struct.Struct("<QQQddIQB")
    OPTIONS, TIGHTENING = 5, 0.5

    def __init__(self, error, capacity, expansion=2):
        self.expansion, self.layers = expansion, []
        self.grow(capacity, error * self.TIGHTENING)

    def grow(self, capacity, error):
        per_key = -math.log(error) / 0.480453013918201
        bits = -(-int(capacity * per_key) // 64) * 64
        self.layers.append({
            "bits": bytearray(bits // 8), "size": 0, "error": error, "per_key": per_key,
            "hashes": math.ceil(0.693147180559945 * per_key), "capacity": capacity,
        })

    @staticmethod
    def places(layer, item):
        first = murmur64a(item.encode(), 0xC6A4A7935BD1E995)
        second = murmur64a(item.encode(), first)
        for i in range(layer["hashes"]):
            place = (first + i * second) % 2**64 % (8 * len(layer["bits"]))
            yield place >> 3, 1 << (place & 7)

    def __contains__(self, item):
        return any(
            all(layer["bits"][byte] & bit for byte, bit in self.places(layer, item))
            for layer in reversed(self.layers)
        )

    def add(self, item):
        if item in self:
            return
        layer = self.layers[-1]
        if layer["size"] >= layer["capacity"]:
            self.grow(layer["capacity"] * self.expansion, layer["error"] * self.TIGHTENING)
            layer = self.layers[-1]
        for byte, bit in self.places(layer, item):
            layer["bits"][byte] |= bit
        layer["size"] += 1

    def dump(self):
        size = sum(layer["size"] for layer in self.layers)
        out = self.CHAIN.pack(size, len(self.layers), self.OPTIONS, self.expansion)
        for layer in self.layers:
            out += self.LAYER.pack(
                len(layer["bits"]), 8 * len(layer["bits"]), layer["size"], layer["error"],
                layer["per_key"], layer["hashes"], layer["capacity"], 0,
            )
        return out + b"".join(layer["bits"] for layer in self.layers)

    @classmethod
    def load(cls, data):
        self = cls.__new__(cls)
        size, count, options, self.expansion = cls.CHAIN.unpack_from(data)
        assert options == cls.OPTIONS
        at, self.layers = cls.CHAIN.size + count * cls.LAYER.size, []
        for index in range(count):
            length, bits, held, error, per_key, hashes, capacity, power = cls.LAYER.unpack_from(
                data, cls.CHAIN.size + index * cls.LAYER.size
            )
            assert bits == 8 * length and power == 0
            self.layers.append({
                "bits": bytearray(data[at : at + length]), "size": held, "error": error,
                "per_key": per_key, "hashes": hashes, "capacity": capacity,
            })
            at += length
        assert at == len(data) and size == sum(layer["size"] for layer in self.layers)
        return self


def make_redisbloom(folder):
    for name, capacity in (("redisbloom", 1000), ("redisbloom-chain", 100)):
        bloom = RedisBloom(0.01, capacity)
        for i in KEYS:
            bloom.add(text(i))
        (folder / f"{name}.bin").write_bytes(bloom.dump())


def make(folder):
    make_redisbloom(folder)

    import duckdb
    import poppy
    import pyarrow
    import pyarrow.parquet
    import rbloom
    import xxhash

    strings = [xxhash.xxh64_intdigest(text(i)) for i in KEYS]
    integers = [number(i) % 2**64 for i in KEYS]
    for width in (8, 16):
        (folder / f"fuse{width}-text.bin").write_bytes(make_fuse(width, strings))
        (folder / f"fuse{width}-uint64.bin").write_bytes(make_fuse(width, integers))

    bloom = rbloom.Bloom(1000, 0.01, caller_hash)
    bloom.update(KEYS)
    (folder / "rbloom.bin").write_bytes(bloom.save_bytes())

    bloom = poppy.BloomFilter.with_version(1, 1000, 0.01)
    for i in KEYS:
        bloom.insert_str(text(i))
    bloom.save(str(folder / "dcso.bin"))

    # Two row groups, whose keys are not the same: of 400 rows the first 200 and the last 200.
    table = pyarrow.table({
        "id": pyarrow.array([number(i) for i in KEYS], pyarrow.int64()),
        "small": pyarrow.array([number(i) for i in KEYS], pyarrow.int32()),
        "name": [text(i) for i in KEYS],
        "ratio": [i / 8 for i in KEYS],
        "plain": [i % 7 for i in KEYS],
    })
    options = {name: {"ndv": 200, "fpp": 0.01} for name in ("id", "small", "name", "ratio")}
    pyarrow.parquet.write_table(
        table, folder / "pyarrow.parquet", row_group_size=200, bloom_filter_options=options,
        compression="zstd",
    )
    pyarrow.parquet.write_table(table.slice(0, 10), folder / "no-filters.parquet", compression="zstd")
    duckdb.from_arrow(pyarrow.concat_tables([table] * 20)).write_parquet(
        str(folder / "duckdb.parquet"), row_group_size=8000, compression="zstd"
    )


    for plaintext_footer, name in ((True, "encrypted-column"), (False, "encrypted-footer")):
        pyarrow.parquet.write_table(
            table.slice(0, 10).select(["id", "name"]), folder / f"{name}.parquet",
            encryption_properties=encryption(plaintext_footer),
        )


def encryption(plaintext_footer):
    """Encrypts the column `name`, with keys that are not secret. pyarrow writes no filters then."""
    import base64
    import pyarrow.parquet.encryption as encryption

    class Keys(encryption.KmsClient):
        def __init__(self, config):
            super().__init__()

        def wrap_key(self, key, name):
            return base64.b64encode(name.encode() + b":" + key)

        def unwrap_key(self, key, name):
            return base64.b64decode(key).split(b":", 1)[1]

    configuration = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["name"]}, plaintext_footer=plaintext_footer
    )
    factory = encryption.CryptoFactory(Keys)
    return factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)


def expect(name, contains):
    found, others = sum(map(contains, KEYS)), sum(map(contains, OTHERS))
    print(f"{name}: {found} of {len(KEYS)} members, {others} of {len(OTHERS)} others")
    assert found == len(KEYS) and others <= 400


def check(folder):
    import poppy
    import rbloom
    import xxhash

    for width in (8, 16):
        ffi, call, new = fuse(width)
        bytes = (folder / f"fuse{width}-texts.bin").read_bytes()
        filter, buffer = new(), ffi.new("char[]", bytes)
        assert call("deserialize", filter, buffer)
        expect(f"fuse{width}", lambda i: call("contain", xxhash.xxh64_intdigest(text(i)), filter))

    bloom = rbloom.Bloom.load_bytes((folder / "rbloom-hashes.bin").read_bytes(), caller_hash)
    expect("rbloom", lambda i: i in bloom)

    bloom = poppy.load(str(folder / "dcso-texts.bin"))
    expect("dcso", lambda i: bloom.contains_str(text(i)))

    bloom = RedisBloom.load((folder / "redisbloom-texts.bin").read_bytes())
    expect("redisbloom", lambda i: text(i) in bloom)

    for keys, key in (("texts", text), ("numbers", number)):
        bytes = (folder / f"parquet-{keys}.bin").read_bytes()
        excludes = wrap(folder / f"{keys}.parquet", [key(i) for i in range(2_000_000, 2_000_400)], bytes)
        expect(f"parquet, {keys}, DuckDB", lambda i: not excludes(key(i)))


def wrap(path, rows, filter):
    """Writes a Parquet file of these rows with the filter of other keys. Returns a function that asks DuckDB
    whether the filter excludes a key.
    """
    import duckdb
    import pyarrow
    import pyarrow.parquet

    # A filter of the same size, whose bytes are replaced.
    pyarrow.parquet.write_table(
        pyarrow.table({"key": rows}), path, compression="none",
        bloom_filter_options={"key": {"ndv": len(KEYS), "fpp": 0.01}},
    )
    offset, length = duckdb.execute(
        "SELECT bloom_filter_offset, bloom_filter_length FROM parquet_metadata(?)", [str(path)]
    ).fetchone()
    assert length == len(filter), (length, len(filter))
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(filter)
    probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'key', ?)"
    return lambda key: duckdb.execute(probe, [str(path), key]).fetchone()[0]


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
