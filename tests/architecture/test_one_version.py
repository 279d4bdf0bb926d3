"""The version stands in one place, and everything that tells it tells that one."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import afl.cli
import afl_stream.cli
from afl.core import versions as core_versions
from afl.core.release import VERSION
from afl.engine import types as engine_types
from afl.engine import versions as engine_versions
from afl.engine.model.workflow_rows import WorkflowRow
from afl_stream.wire import versions as stream_versions
from afl_stream.wire.headers import HeaderForm, headers_for
from afl_stream.wire.messages import StepContinue

_ROOT = Path(__file__).parents[2]


def test_a_version_is_three_plain_numbers_as_stores_and_records_compare_them() -> None:
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", VERSION)


def test_the_build_reads_the_version_where_the_packages_do() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    where = project["tool"]["hatch"]["version"]

    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    found = re.search(where["pattern"], (_ROOT / where["path"]).read_text())
    assert found is not None
    assert found["version"] == VERSION


@pytest.mark.parametrize(("name", "main"), [("afl", afl.cli.main), ("afl-stream", afl_stream.cli.main)])
def test_a_command_tells_the_version(name: str, main: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(main)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{name} {VERSION}\n"


def test_packages_stores_records_and_telemetry_tell_the_version() -> None:
    answer = StepContinue(step_id="w1:0a")
    headers = dict(headers_for(answer, source="/test", at_ms=0, form=HeaderForm.CLOUDEVENTS))
    structured = json.loads(dict(headers_for(answer, source="/test", at_ms=0))["afl"] or b"")
    reported = {
        "afl.__version__": afl.__version__,
        "afl_stream.__version__": afl_stream.__version__,
        "stored documents": engine_versions.SUPPORTED.runtime_version,
        "workflow rows": WorkflowRow._field_defaults["runtime_version"],
        "VersionInfo": engine_types.VersionInfo().runtime_version,
        "telemetry's scope and a runner's /status": core_versions.RUNTIME_VERSION,
        "records": stream_versions.SUPPORTED["runtime_version"],
        "headers of records": (headers["afl_runtime_version"] or b"").decode(),
        "structured header of records": structured["versions"].rpartition("/")[2],
    }

    assert set(reported.values()) == {VERSION}, reported


def test_the_editors_extension_has_the_version() -> None:
    assert json.loads((_ROOT / "editors" / "package.json").read_text())["version"] == VERSION


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    releases = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", (_ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert releases[0] == VERSION


def test_no_module_states_a_version_of_its_own() -> None:
    states = re.compile(r"""(?:^|_)version(?:__)?\b[^=\n]*=\s*["']\d+\.\d+\.\d+""", re.IGNORECASE | re.MULTILINE)
    stated = [
        str(path.relative_to(_ROOT))
        for package in ("afl", "afl_stream", "tools", "benchmarks", "examples")
        if (_ROOT / package).is_dir()
        for path in (_ROOT / package).rglob("*.py")
        if states.search(path.read_text())
    ]

    assert stated == ["afl/core/release.py"]
