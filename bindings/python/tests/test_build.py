"""The function build: all kinds, options, progress and interruption."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import INSERTING, STATIC, ticks_during

import tamis


@pytest.mark.parametrize("kind", [*STATIC, *INSERTING])
def test_every_kind(kind):
    keys = [f"key {key}" for key in range(500)]
    ours = tamis.build(keys, 0.01, kind=kind, seed=5)
    assert ours.kind == kind and ours.contains(keys).all()
    assert not ours.contains([f"other {key}" for key in range(500)]).sum() > 50
    again = tamis.build(iter(keys), 0.01, kind=kind, seed=5)
    assert again.contains(keys).all()
    if kind in STATIC:
        assert again == ours


def test_static_kinds_count_their_keys():
    assert len(tamis.build([1, 2, 2, 3])) == 3
    assert len(tamis.build([])) == 0
    words = tamis.build(["apple", "pear"], fpr=0.001)
    assert "static" in words.capabilities
    with pytest.raises(tamis.UnsupportedError, match="does not support insert"):
        words.add("plum")


@pytest.mark.parametrize("arguments", [{"fpr": float("nan")}, {"bits_per_key": float("nan")}, {"fpr": -1.0}])
def test_rates_that_are_none(arguments):
    calls = [lambda: tamis.build([1], **arguments), lambda: tamis.build([1], kind="ribbon", **arguments)]
    calls += [lambda: tamis.Map({1: 1}, **arguments), lambda: tamis.Window(10, **arguments)]
    if "fpr" in arguments:
        calls += [lambda: list(tamis.uniq([1], **arguments)), lambda: tamis.plan(keys=10, **arguments)]
    for call in calls:
        with pytest.raises(tamis.InvalidInputError, match="rate must be|bits_per_key must be"):
            call()


def test_ranges():
    times = tamis.build([-50, 7, 9000, 2**64 - 1], 1e-6, kind="grafite", settings={"range_length": 100}, seed=1)
    assert "range" in times.capabilities and times.hash == "ordered"
    assert times.contains_range(-60, 0) and times.contains_range(9000, 9000)
    assert times.contains_range(2**64 - 5, 2**64 - 1)
    assert not times.contains_range(8, 100)
    with pytest.raises(tamis.InvalidInputError, match="begins after its end"):
        times.contains_range(8, 7)
    with pytest.raises(tamis.UnsupportedError, match="does not support range"):
        tamis.build([1, 2]).contains_range(1, 2)
    with pytest.raises(tamis.InvalidInputError, match="needs the hash"):
        tamis.build([1, 2], kind="grafite", hash="fast")
    with pytest.raises(tamis.InvalidInputError, match="needs hashes without order"):
        tamis.build([1, 2], kind="ribbon", hash="ordered")


def test_needs():
    assert "remove" in tamis.build(range(100), needs=["remove"]).capabilities


def test_deny():
    ours = tamis.build(range(1000), 0.3, deny=range(1000, 2000))
    assert ours.kind == "guarded"
    assert ours.contains(range(1000)).all() and not ours.contains(range(1000, 2000)).any()
    with pytest.raises(tamis.ConflictError):
        tamis.build([1, 2], deny=[2])
    with pytest.raises(tamis.UnsupportedError, match="deny"):
        tamis.build([1], kind="ribbon", deny=[2])


def test_threads_and_memory_do_not_change_the_filter(tmp_path):
    keys = np.arange(200_000)
    one = tamis.build(keys, seed=1, threads=1, kind="ribbon")
    assert tamis.build(keys, seed=1, threads=2, kind="ribbon") == one
    low = tamis.build(keys, seed=1, kind="ribbon", max_memory=17e6, scratch=tmp_path)
    assert low == one and not list(tmp_path.iterdir())
    with pytest.raises(tamis.OutOfMemoryError, match="too few") as raised:
        tamis.build(keys, max_memory=1000)
    assert isinstance(raised.value, MemoryError)


def test_capacity():
    assert tamis.build(["a"], kind="bloom", capacity=1000).capacity == 1000
    with pytest.raises(tamis.FullError):
        tamis.build(range(100), kind="bloom", capacity=10)


def test_progress():
    calls = []
    tamis.build(range(1_000_000), progress=lambda placed, keys: calls.append((placed, keys)))
    assert calls[-1] == (1_000_000, 1_000_000)

    def fails(placed, keys):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        tamis.build(range(1_000_000), progress=fails)


def test_progress_bar(capsys):
    tamis.build(range(1000), progress=True)
    assert "1.00k" in capsys.readouterr().err
    tamis.build(range(1000), progress=False)
    assert capsys.readouterr().err == ""


def test_progress_bar_without_tqdm(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    tamis.build(range(1000), progress=True)
    assert "1000 of 1000 keys" in capsys.readouterr().err


def test_time_limit():
    start = time.monotonic()
    with pytest.raises(tamis.StoppedError, match="time limit"):
        tamis.build(iter(int, 1), time_limit=0.2, kind="ribbon")
    assert time.monotonic() - start < 60
    with pytest.raises(tamis.InvalidInputError, match="seconds"):
        tamis.build([1], time_limit=float("nan"))


def test_control_c_stops_a_build():
    """Keys without end; the interrupt arrives while they are read."""

    def first():
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        yield 0

    # A process in the background of a script ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            tamis.build(itertools.chain(first(), iter(int, 1)), kind="ribbon", time_limit=60)
    finally:
        signal.signal(signal.SIGINT, before)


def test_control_c_stops_a_search():
    """The interrupt arrives while a slow kind is solved without the interpreter."""
    program = """
import signal, tamis, numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("ready", flush=True)
    tamis.build(np.arange(2_000_000), kind="sat", fpr=1e-9)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    start = time.monotonic()
    output, _ = child.communicate(timeout=60)
    assert output == "stopped\n" and time.monotonic() - start < 30


def test_a_build_does_not_hold_the_interpreter():
    keys = np.arange(1_000_000)
    assert ticks_during(lambda: tamis.build(keys, kind="ribbon")) > 3


def test_a_window_is_not_built():
    with pytest.raises(TypeError, match=r"tamis\.Window"):
        tamis.build([1], kind="sliding")


def test_a_rate_of_zero_makes_an_exact_set():
    for ours in (tamis.build(range(1000), 0, kind="exact", capacity=1000), tamis.Filter(1000, 0)):
        ours.update(range(1000))
        assert ours.kind == "exact" and ours.hash == "secure" and 0 < ours.fpr < 1e-35
        assert ours.contains(np.arange(100_000)).sum() == 1000
        ours.remove(7)
        assert 7 not in ours and len(ours) == 999
    assert tamis.plan(keys=1000, fpr=0)[0].kind == "exact"
    with pytest.raises(tamis.InvalidInputError, match="only `exact` takes 0"):
        tamis.build([1], 0, kind="bloom")
