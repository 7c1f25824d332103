"""Files, bytes and pickles."""

import mmap
import multiprocessing
import os
import pathlib
import pickle

import pyarrow as pa
import pytest
from conftest import INSERTING, ROOT, STATIC

import tamis


def make(kind):
    keys = [f"key {key}" for key in range(100)]
    if kind == "sliding":
        ours = tamis.Window(100)
        ours.update(keys)
        return ours
    if kind == "bloomier":
        return tamis.Map({key: index for index, key in enumerate(keys)})
    return tamis.build(keys, kind=kind)


@pytest.mark.parametrize("kind", [*STATIC, *INSERTING, "sliding"])
def test_round_trips(kind, tmp_path):
    ours = make(kind)
    data = ours.to_bytes()
    assert bytes(ours) == data and bytes(memoryview(ours)) == data
    path = tmp_path / "filter.tamis"
    ours.save(path)
    assert path.read_bytes() == data
    for again in (
        tamis.open(path),
        tamis.open(str(path), verify=True),
        tamis.from_bytes(data),
        tamis.from_bytes(bytearray(data)),
        tamis.from_bytes(memoryview(data)),
        tamis.from_bytes(pa.py_buffer(data)),
        tamis.from_buffer(data),
        pickle.loads(pickle.dumps(ours)),
        ours.copy(),
    ):
        assert type(again) is type(ours) and again == ours and again.kind == kind
        assert again.contains([f"key {key}" for key in range(100)]).all()


def test_a_mapped_filter_changes_in_memory_only(tmp_path):
    path = tmp_path / "filter.tamis"
    ours = tamis.Filter(100, kind="cuckoo")
    ours.add("a")
    ours.save(path)
    data = path.read_bytes()
    for mapped in (tamis.open(path), tamis.from_buffer(data)):
        mapped.add("b")
        mapped.remove("a")
        assert "b" in mapped and "a" not in mapped
    assert path.read_bytes() == data and tamis.open(path) == ours


def test_saving_replaces_a_file(tmp_path):
    path = tmp_path / "filter.tamis"
    old, new = tamis.build(["a"]), tamis.build(["b"])
    old.save(path)
    mapped = tamis.open(path)
    new.save(path)
    assert mapped == old and tamis.open(path) == new


def test_errors_of_files(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        tamis.open(tmp_path / "none.tamis")
    assert raised.value.filename == str(tmp_path / "none.tamis") and raised.value.errno == 2
    with pytest.raises(OSError):
        tamis.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        tamis.build(["a"]).save(tmp_path / "none" / "filter.tamis")
    with pytest.raises(TypeError):
        tamis.open(7.5)


def test_hostile_bytes(tmp_path):
    data = tamis.build(range(1000), seed=1).to_bytes()
    path = tmp_path / "damaged.tamis"
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        for read in (
            lambda: tamis.from_bytes(damaged),
            lambda: tamis.open(path, verify=True),
        ):
            try:
                read()
            except (tamis.TamisError, OSError, pickle.UnpicklingError, ValueError):
                pass
        with pytest.raises((tamis.TamisError, OSError)):
            tamis.from_bytes(damaged)
    for length in (0, 1, 63, 64, len(data) - 1):
        with pytest.raises(tamis.CorruptError):
            tamis.from_bytes(data[:length])
    with pytest.raises(ValueError):
        tamis.from_bytes(b"not a filter")
    with pytest.raises(TypeError):
        tamis.from_bytes("text")


@pytest.mark.parametrize("kind", ["binary_fuse", "split_block_bloom", "bloomier", "sliding"])
def test_hostile_pickles(kind):
    ours = make(kind)
    data, pickled = ours.to_bytes(), pickle.dumps(ours)
    at = pickled.index(data)
    for position in range(0, len(data), 11):
        damaged = bytearray(pickled)
        damaged[at + position] ^= 0x10
        with pytest.raises((tamis.TamisError, OSError)):
            pickle.loads(bytes(damaged))
    for length in (0, 1, at, at + 1, len(pickled) // 2, len(pickled) - 1):
        with pytest.raises((EOFError, pickle.UnpicklingError)):
            pickle.loads(pickled[:length])
    function, _ = ours.__reduce__()
    for argument in (b"", b"junk", b"\xff" * 1000, data[:-1], data + b"x"):
        with pytest.raises(tamis.CorruptError):
            function(argument)
    for argument in (None, 7, "text", [data]):
        with pytest.raises(TypeError):
            function(argument)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(tamis.Dictionary())


def test_sources_that_are_closed(tmp_path):
    ours = tamis.build(range(100))
    path = tmp_path / "filter.tamis"
    ours.save(path)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for call in (tamis.open, ours.save):
        with pytest.raises(TypeError, match="PathLike"):
            call(file)
    read = tamis.from_bytes(mapped)
    mapped.close()
    assert read == ours
    with pytest.raises(ValueError, match="closed"):
        tamis.from_bytes(mapped)
    view = memoryview(ours.to_bytes())
    view.release()
    with pytest.raises(ValueError, match="released"):
        tamis.from_bytes(view)
    still_mapped = tamis.open(path)
    path.unlink()
    assert still_mapped == ours


@pytest.mark.parametrize("path", sorted((ROOT / "testdata/corrupt").iterdir()), ids=lambda path: path.name)
def test_damaged_files_of_the_project(path: pathlib.Path):
    with pytest.raises((tamis.TamisError, OSError)):
        tamis.open(path, verify=True)
    with pytest.raises((tamis.TamisError, OSError)):
        tamis.from_bytes(path.read_bytes())


def contains_all(pickled: bytes) -> bool:
    return bool(pickle.loads(pickled).contains(range(1000)).all())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_other_processes(method):
    ours = tamis.build(range(1000))
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert all(pool.map(contains_all, [pickle.dumps(ours)] * 4))
        assert all(pool.map(ours.__contains__, range(100)))


def test_fork():
    """A child has its own copy of the filter."""
    ours = tamis.Filter(100_000, 1e-9, seed=1)
    ours.update(range(50_000))
    child = os.fork()
    if child == 0:
        ours.add("child")
        fine = "child" in ours and ours.contains(range(50_000)).all()
        os._exit(0 if fine else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0 and "child" not in ours
