"""The tests of crates/redis-client, on a server and on a cluster."""

import os
import subprocess

import pytest

from test_cluster import make_cluster

TESTS = os.environ.get("TAMIS_CLIENT_TESTS")


@pytest.mark.skipif(not TESTS, reason="the Rust client's tests are not built")
@pytest.mark.parametrize("place", ["server", "cluster"])
def test_rust_client(make_server, place):
    server = make_server() if place == "server" else make_cluster(make_server)[0]
    variables = os.environ | {"TAMIS_REDIS_URL": f"redis://127.0.0.1:{server.port}/"}
    done = subprocess.run([TESTS, "--nocapture"], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TESTED" not in done.stdout
