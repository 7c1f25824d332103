"""Several threads use one filter."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import ticks_during

import tamis


@pytest.mark.parametrize("kind", ["split_block_bloom", "cuckoo", "counting_quotient", "growing"])
def test_threads_change_and_query_one_filter(kind):
    ours = tamis.Filter(200_000, 1e-6, kind=kind)
    start = threading.Barrier(4)

    def work(thread: int) -> bool:
        start.wait()
        own = range(thread * 10**6, thread * 10**6 + 20_000)
        fine = True
        for key in own[:5000]:
            ours.add(key)
            fine &= key in ours
        ours.update(np.array(own[5000:12_000]))
        ours.update(own[12_000:])
        return fine and bool(ours.contains(own).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert len(ours) == 80_000


@pytest.mark.parametrize("kind", ["growing", "scalable_bloom"])
def test_lookups_while_a_batch_moves_the_tables(kind):
    """A lookup of one key takes no lock, unless a batch changes the filter at the same time."""
    ours = tamis.Filter(kind=kind, fpr=0.001)
    ours.add("first")
    batches = [np.arange(start, start + 300_000) for start in range(0, 1_500_000, 300_000)]

    lookups = 0

    def fill() -> None:
        for batch in batches:
            ours.update(batch)
        # A busy machine may not have scheduled the other thread yet.
        deadline = time.monotonic() + 30
        while lookups <= 10 and time.monotonic() < deadline:
            ours.update(batches[-1])

    thread = threading.Thread(target=fill)
    thread.start()
    while thread.is_alive():
        assert "first" in ours and len(ours) >= 1
        lookups += 1
    thread.join()
    assert lookups > 10
    assert all(ours.contains(batch).all() for batch in batches)


def test_threads_that_merge_do_not_wait_for_each_other():
    a = tamis.Filter(10_000, seed=1, kind="bloom")
    b = a.empty_like()

    def work(turn: int) -> None:
        nonlocal a, b
        for key in range(200):
            first, second = (a, b) if turn else (b, a)
            first.__ior__(second)
            assert first.similarity(second) <= 1.0001
            assert (first == second) in (True, False)
            first.add(key)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert (a | b).contains(range(200)).all()


def test_a_batch_does_not_hold_the_interpreter():
    """Other threads run while a batch of 10 million keys is answered."""
    ours = tamis.build(np.arange(100_000))
    keys = np.arange(10_000_000)
    assert ticks_during(lambda: ours.contains(keys, threads=1)) > 3
