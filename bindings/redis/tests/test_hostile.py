"""Damaged payloads of RESTORE, TAMIS.LOAD and BF.LOADCHUNK: an error reply, and the server lives."""

import random

import pytest
from redis.exceptions import ResponseError

from conftest import SOAK
from test_commands import KINDS, dump, make

ROUNDS = 400 if SOAK else 25


def mutations(data, rounds, seed):
    chance = random.Random(seed)
    for _ in range(rounds):
        changed = bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 8])):
            at = chance.randrange(len(changed))
            match chance.randrange(5):
                case 0 | 1:
                    changed[at] ^= 1 << chance.randrange(8)
                case 2:
                    changed[at] = chance.choice([0, 0xFF, 0x7F, 0x80])
                case 3:
                    del changed[at : at + chance.randrange(1, 64)]
                case 4:
                    changed[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 16)))
            if not changed:
                changed = bytearray(b"x")
        yield bytes(changed)


def use(client, key):
    """Runs commands on a value that was accepted."""
    for command in [
        ["TAMIS.MEXISTS", key, *range(50)],
        ["TAMIS.MADD", key, *range(1000, 1010)],
        ["TAMIS.REM", key, 1, 2, 3],
        ["TAMIS.PUSH", key, 1, 2, 3],
        ["TAMIS.GET", key, 1, 2, 3],
        ["TAMIS.COUNT", key, 1, 2, 3],
        ["TAMIS.BUILD", key, "END"],
        ["TAMIS.INFO", key],
        ["MEMORY", "USAGE", key],
        ["COPY", key, "copy", "REPLACE"],
    ]:
        try:
            client.execute_command(*command)
        except ResponseError:
            pass


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_payloads(r, kind):
    make(r, kind)
    # The server's own checksum would hide the module's: it is not checked.
    r.execute_command("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1)
    try:
        payload, file = r.dump("f"), dump(r, "f")
        refused = 0
        for changed in mutations(payload[:-10], ROUNDS, kind):
            try:
                r.restore("g", 0, changed + payload[-10:], replace=True)
                use(r, "g")
            except ResponseError:
                refused += 1
        assert refused > ROUNDS / 2
        for changed in mutations(file, ROUNDS, kind):
            for command in [
                ["TAMIS.LOAD", "h", 0, changed],
                ["BF.LOADCHUNK", "h", len(changed) + 1, changed],
            ]:
                r.delete("h")
                try:
                    r.execute_command(*command)
                    use(r, "h")
                except ResponseError:
                    pass
        for cut in range(0, len(payload) - 10, max(1, len(payload) // ROUNDS)):
            with pytest.raises(ResponseError):
                r.restore("g", 0, payload[:cut] + payload[-10:], replace=True)
    finally:
        r.execute_command("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 0)
    assert r.ping()


def test_damaged_staged_and_loading_payloads(r):
    r.execute_command("TAMIS.BUILD", "staged", "BEGIN", "bloomier", 0.01, "SET", "value_bits", 8)
    r.execute_command("TAMIS.BUILD", "staged", "ENTRIES", "a", 1, "b", 2)
    r.execute_command("TAMIS.ADD", "f", "a")
    r.execute_command("TAMIS.LOAD", "loading", 0, dump(r, "f")[:700])
    r.execute_command("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1)
    try:
        for key in ["staged", "loading"]:
            payload = r.dump(key)
            for changed in mutations(payload[:-10], 10 * ROUNDS, key):
                try:
                    r.restore("g", 0, changed + payload[-10:], replace=True)
                    use(r, "g")
                except ResponseError:
                    pass
    finally:
        r.execute_command("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 0)
    assert r.ping()
