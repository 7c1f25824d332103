"""Stubs agree with the module, and every example in the documentation runs."""

import doctest
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import tamis
import tamis._plan
import tamis._tamis
import tamis._uniq
import tamis.duckdb
import tamis.polars

PACKAGE = ROOT / "bindings/python"


def test_stubs_agree_with_the_module():
    result = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "tamis._tamis", "--mypy-config-file", "pyproject.toml"],
        capture_output=True,
        text=True,
        cwd=PACKAGE,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_typed_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "import tamis\n"
        "seen = tamis.Filter(1000, 0.01)\n"
        "seen |= seen.copy()\n"
        "found: bool = 'a' in seen\n"
        "mask = seen.contains(np.arange(3))\n"
        "first: tamis.Advice = tamis.plan(keys=1e6)[0]\n"
        "value: int | None = tamis.Map({'a': 1}).get('a')\n"
        "text: str = tamis.Map({'a': 'b'})['a'].decode()\n"
        "words: list[str] = list(tamis.uniq(['a', 'b']))\n"
    )
    check = [sys.executable, "-m", "mypy", "--strict", str(program)]
    result = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    program.write_text("import tamis\ntamis.Filter(1000).add(1.5)\n")
    result = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert "float" in result.stdout and result.returncode == 1


MODULES = [tamis, tamis._plan, tamis._uniq, tamis._tamis, tamis.duckdb, tamis.polars]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner()
    tests = finder.find(module, module.__name__)
    for value in vars(module).values():
        # The finder does not look for members of compiled classes.
        if isinstance(value, type) and value.__module__ == "tamis":
            for name, member in vars(value).items():
                text = getattr(member, "__doc__", None)
                if text and ">>>" in text:
                    parser = doctest.DocTestParser()
                    tests.append(parser.get_doctest(text, {}, f"{value.__name__}.{name}", None, None))
    ran = sum(runner.run(test).attempted for test in tests)
    assert runner.failures == 0
    assert ran > 0


def test_everything_has_a_docstring():
    for name in tamis.__all__:
        assert getattr(tamis, name).__doc__, name
    for value in (tamis.Filter, tamis.Map, tamis.Window, tamis.Dictionary, tamis.AnyFilter):
        for name, member in vars(value).items():
            if not name.startswith("_"):
                assert member.__doc__, f"{value.__name__}.{name}"


def pages() -> list[str]:
    """Returns the pages with blocks of Python. The tests of the Redis module run those of docs/redis.md."""
    docs = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
    found = [path for path in docs if path != "docs/redis.md" and "\n```python\n" in (ROOT / path).read_text("utf-8")]
    assert len(found) > 3
    return [*sorted(found), "bindings/python/README.md"]


@pytest.mark.parametrize("path", pages())
def test_examples_in_pages(path, tmp_path, monkeypatch):
    """The blocks of a page run in order, in one program. A line `# -> x` states the value before it."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / path).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks, path
    scope: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, path, "exec"), scope)


def test_importing_is_quick():
    """NumPy is imported when it is needed."""
    program = "import sys, tamis; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


def test_version():
    manifest = pathlib.Path(PACKAGE / "Cargo.toml").read_text("utf-8")
    assert f'version = "{tamis.__version__}"' in manifest
