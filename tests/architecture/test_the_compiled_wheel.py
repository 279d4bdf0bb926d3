"""The wheel with compiled modules: it says so, and tests of engine, stores and loop pass on it."""

import subprocess
import sys
import tomllib
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from afl.core.build import compiled_modules, described_build
from tests.architecture.page_tables import ROOT
from tests.worlds.requirements import required_tool
from tools.fast import build_wheel, run_tests, unpack_with_tests

#: Each compiled module is run by them: steps of all kinds, the values at their limits, answers, and the rows that stay.
_TESTED = (
    "tests/unit/engine/test_bound_steps.py",
    "tests/unit/engine/test_engine_answers.py",
    "tests/unit/engine/test_engine_continuing.py",
    "tests/unit/engine/test_engine_doubles.py",
    "tests/unit/engine/test_engine_foreach.py",
    "tests/unit/engine/test_engine_limits_and_memory.py",
    "tests/unit/engine/test_engine_recovery.py",
    "tests/unit/engine/test_execution.py",
    "tests/unit/engine/test_operators.py",
    "tests/unit/engine/test_shared_commits.py",
    "tests/unit/stream/agent/test_agent_delivery.py",
    "tests/unit/stream/evaluator/test_outbox_publisher.py",
    "tests/unit/stream/wire/test_record_codec.py",
    "tests/scenarios/test_both_ways_are_equal.py",
    "tests/scenarios/test_commits_beside.py",
)


def _listed() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    return [path.removesuffix(".py").replace("/", ".") for path in hook["include"]]


def test_every_module_that_is_to_be_compiled_is_there() -> None:
    listed = _listed()

    assert len(listed) == len(set(listed))
    assert [name for name in listed if not (ROOT / (name.replace(".", "/") + ".py")).exists()] == []


def test_a_source_tree_is_plain_python() -> None:
    assert compiled_modules(ROOT) == []
    assert described_build([]) == "build: plain Python"


def test_compiled_modules_are_found_by_their_files(tmp_path: Path) -> None:
    for name in ("afl/engine/waits", "afl_stream/wire/__init__", "afl/abc__mypyc"):
        file = tmp_path / f"{name}{EXTENSION_SUFFIXES[0]}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    assert compiled_modules(tmp_path) == ["afl.engine.waits", "afl_stream.wire"]
    assert described_build(["afl.engine.waits"]) == "build: 1 modules compiled by mypyc: afl.engine.waits"


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_the_tests_pass_on_the_compiled_wheel(tmp_path: Path) -> None:
    required_tool("gcc")
    wheel = build_wheel(tmp_path / "wheel", optimised=False)
    tree = tmp_path / "tree"
    unpack_with_tests(wheel, tree)

    assert compiled_modules(tree) == sorted(_listed())
    assert "none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    # Each has its source beside it, which debuggers and tracebacks show.
    assert {f"{name.replace('.', '/')}.py" for name in _listed()} <= names
    said = subprocess.run(
        [sys.executable, "-m", "afl_stream", "config"], cwd=tree, capture_output=True, text=True, check=True, timeout=60
    )
    assert f"build: {len(_listed())} modules compiled by mypyc" in said.stdout + said.stderr
    assert run_tests(tree, ["-q", "-x", "-n", "2", *_TESTED]) == 0
