"""redis-py's own tests of Bloom and cuckoo filters, from its source distribution.

TAMIS_REDIS_PY is the folder of the unpacked distribution.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PASS = ["test_bf_add", "test_bf_insert", "test_bf_scandump_and_loadchunk", "test_bf_info"]
PASS += ["test_bf_card", "test_cf_add_and_insert", "test_cf_exists_and_del"]
# Their calls of BF.* and CF.* pass; then they go on with count-min sketches, which are not in the module.
SKETCH = ["test_create", "test_bf_reserve"]


@pytest.mark.skipif("TAMIS_REDIS_PY" not in os.environ, reason="redis-py's sources are not there")
@pytest.mark.parametrize("protocol", [2, 3])
def test_tests_of_redis_py(shared_server, protocol):
    url = f"redis://127.0.0.1:{shared_server.port}/0"
    command = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "bf_version", "tests/test_bloom.py"]
    command += ["-p", "no:cacheprovider", "--protocol", str(protocol), "--redis-url", url]
    command += ["--redis-mod-url", url, "-k", " or ".join(PASS + SKETCH)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "redis_py")}
    run = subprocess.run(
        command, cwd=os.environ["TAMIS_REDIS_PY"], env=environment, capture_output=True, text=True
    )
    passed = set(re.findall(r"^PASSED \S+::(\w+)", run.stdout, re.MULTILINE))
    failed = set(re.findall(r"^FAILED \S+::(\w+)", run.stdout, re.MULTILINE))
    assert passed == set(PASS) and failed == set(SKETCH), run.stdout
    assert run.stdout.count("unknown command 'CMS.INITBYDIM'") >= len(SKETCH), run.stdout
