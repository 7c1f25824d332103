"""Mixed load for TAMIS_SOAK_MINUTES (30 in `cargo xtask soak`): memory stays flat."""

import os
import time

import pytest
from redis.exceptions import ResponseError

from test_commands import dump

MINUTES = float(os.environ.get("TAMIS_SOAK_MINUTES", 0))


@pytest.mark.skipif(not MINUTES, reason="TAMIS_SOAK_MINUTES is not set")
def test_memory_is_flat(make_server):
    options = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "100"]
    server = make_server(*options, "--auto-aof-rewrite-min-size", "16mb")
    client = server.client()
    client.execute_command("TAMIS.RESERVE", "hour", "sliding", 20_000, 0.01, "WINDOW", 5000)
    start, samples, step = time.time(), [], 0
    while time.time() - start < MINUTES * 60:
        step += 1
        key, items = f"f{step % 50}", [f"{step} {i}" for i in range(100)]
        client.execute_command("TAMIS.MADD", key, *items)
        assert client.execute_command("TAMIS.MEXISTS", key, *items) == [1] * 100
        client.execute_command("TAMIS.REM", key, *items)
        client.execute_command("BF.MADD", f"b{step % 50}", *items)
        client.execute_command("CF.INSERT", f"c{step % 50}", "ITEMS", *items)
        for item in items[:10]:
            client.execute_command("CF.DEL", f"c{step % 50}", item)
        client.execute_command("TAMIS.PUSH", "hour", *items)
        client.execute_command("TAMIS.BUILD", "s", "BEGIN", "ribbon", 0.01)
        client.execute_command("TAMIS.BUILD", "s", "KEYS", *items)
        client.execute_command("TAMIS.BUILD", "s", "END")
        client.execute_command("TAMIS.LOAD", "t", 0, dump(client, "s"))
        client.copy("t", "u", replace=True)
        for wrong in [["TAMIS.ADD", "s", "x"], ["TAMIS.LOAD", "v", 0, "no filter"]]:
            with pytest.raises(ResponseError):
                client.execute_command(*wrong)
        client.delete("s", "t", "u")
        if step % 200 == 0:
            # Filters that only grow begin again, and with them a period.
            client.delete(*(f"{kind}{i}" for kind in "bc" for i in range(50)))
            client.execute_command("MEMORY", "PURGE")
            memory = client.info("memory")
            samples.append((memory["used_memory"], memory["used_memory_rss"]))
            print(f"{time.time() - start:.0f} s, {step} rounds: used, resident {samples[-1]}", flush=True)
    half = len(samples) // 2
    assert half > 2, "too few rounds"
    for early, late in zip(zip(*samples[:half]), zip(*samples[half:])):
        assert max(late) < max(early) * 1.05 + (1 << 20), samples
