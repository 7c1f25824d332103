"""The examples of docs/redis.md."""

import re
import shlex
from pathlib import Path

from test_client import cluster_client, make_cluster

DOCS = Path(__file__).parents[3] / "docs" / "redis.md"


def shown(reply):
    """Formats a reply as redis-cli does."""
    match reply:
        case list():
            return "\n".join(f"{i}) {shown(item)}" for i, item in enumerate(reply, 1))
        case int():
            return f"(integer) {reply}"
        case bytes() | True:
            return "OK" if reply in (b"OK", True) else f'"{reply.decode()}"'


def test_examples(r):
    blocks = re.findall(r"```redis\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        for example in re.split(r"^> ", block, flags=re.MULTILINE)[1:]:
            command, expected = example.split("\n", 1)
            assert shown(r.execute_command(*shlex.split(command))) == expected.strip(), command


def test_example_of_the_client(make_server):
    [block] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    scope = {"client": cluster_client(make_cluster(make_server)[0])}
    exec(block.replace('RedisCluster(host="127.0.0.1")', "client"), scope)
    assert scope["seen"].contains(["apple", "pear"]) == [True, True]
