"""The command `tamis` and the Rust client against the module.

TAMIS_COMMAND is the path of a `tamis` that was built with the feature `redis`.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMAND = os.environ.get("TAMIS_COMMAND")

pytestmark = pytest.mark.skipif(not COMMAND, reason="the command is not built")


def tamis(*words, status=0, **options):
    run = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, **options)
    assert run.returncode == status, run.stderr
    return run.stdout if status == 0 else run.stderr


def test_push_and_pull(r, shared_server, tmp_path):
    words, file, again = tmp_path / "words", tmp_path / "f.tamis", tmp_path / "again.tamis"
    words.write_text("".join(f"word {i}\n" for i in range(50_000)))
    tamis("build", words, "--filter", "ribbon", "-o", file)
    location = f"redis://127.0.0.1:{shared_server.port}/#words"
    tamis("push", file, location)
    assert r.execute_command("TAMIS.MEXISTS", "words", "word 7", "word 49999") == [1, 1]
    tamis("pull", location, "-o", again)
    assert file.read_bytes() == again.read_bytes()
    # A filter of the server is a file of the command.
    r.execute_command("TAMIS.MADD", "seen", "a", "b")
    tamis("pull", location.replace("words", "seen"), "-o", again)
    assert tamis("query", again, "-", input="a\nb\nc\n") == "a\nb\n"
    # Integers are integers on both sides.
    numbers = tmp_path / "numbers"
    numbers.write_bytes(b"".join(i.to_bytes(8, "little") for i in range(1000)))
    tamis("build", "--u64", numbers, "-o", file)
    tamis("push", file, location)
    assert r.execute_command("TAMIS.MEXISTS", "words", *range(1000)) == [1] * 1000
    assert "not found" in tamis("pull", location + "none", "-o", again, status=2)
    assert "#KEY" in tamis("pull", "redis://127.0.0.1/", "-o", again, status=2)
    assert sorted(r.keys()) == [b"seen", b"words"]


def test_rust_client(r, shared_server):
    url = f"redis://127.0.0.1:{shared_server.port}/"
    run = subprocess.run(
        ["cargo", "test", "--locked", "--package", "tamis-redis-client", "--features", "cluster"],
        cwd=ROOT,
        env={**os.environ, "TAMIS_REDIS_URL": url},
    )
    assert run.returncode == 0
    assert r.exists("rust words") and r.exists("rust seen:{3}")
