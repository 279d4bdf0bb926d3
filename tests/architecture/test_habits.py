"""CONTRIBUTING, the editor's settings, hooks, CI and the issue forms say what is there."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from afl.core.release import VERSION
from afl.formatting.layout import WIDTH
from afl_stream.settings.config import StreamConfig

_ROOT = Path(__file__).parents[2]
_GITHUB = _ROOT / ".github"
_MAKEFILE = (_ROOT / "Makefile").read_text()
_TARGETS = set(re.findall(r"^([a-z][a-z-]*):", _MAKEFILE, re.MULTILINE))
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, text=True, check=True)
    return [_ROOT / name for name in listed.stdout.split("\0") if name and (_ROOT / name).is_file()]


def _made(command: str) -> list[str]:
    words = command.split()
    return words[1:] if words[:1] == ["make"] else []


@pytest.mark.parametrize(
    "subject",
    ["A command", "A record type", "A store", "A state", "A setting", "A limit", "A step to crash at", "A decision"],
)
def test_contributing_says_where_a_new_thing_goes(subject: str) -> None:
    text = (_ROOT / "CONTRIBUTING.md").read_text()
    section = text.split(f"\n### {subject}\n", 1)[1].split("\n#", 1)[0]

    assert any((_ROOT / span).exists() for span in _SPAN.findall(section)), "the section names no place"


def test_contributing_names_things_that_the_code_has() -> None:
    spans = _SPAN.findall((_ROOT / "CONTRIBUTING.md").read_text())
    names = {span for span in spans if re.fullmatch(r"[A-Z][A-Za-z]+[a-z]|[A-Z]+(?:_[A-Z]+)+|[a-z]+(?:_[a-z]+)+", span)}
    code = "\n".join(
        path.read_text()
        for folder in ("afl", "afl_stream", "tests/contract")
        for path in (_ROOT / folder).rglob("*.py")
    )

    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", code)] == []
    assert {"ExitCode", "RECORD_TYPES", "EngineStore", "StepState", "STATE_WORK"} <= names


def test_the_hooks_before_a_commit_are_the_checks_of_make() -> None:
    checks = re.findall(r"^check: (.*)$", _MAKEFILE, re.MULTILINE)[0].split()
    hooks = [hook for repo in _yaml(_ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]

    assert [_made(hook["entry"]) for hook in hooks] == [[target] for target in checks]
    assert set(checks) <= _TARGETS
    # `system`: a hook has no versions of its own, but those that `make` has installed.
    assert {hook["language"] for hook in hooks} == {"system"}
    assert all(re.search(hook["files"], "afl/core/clock.py") for hook in hooks)


def test_ci_calls_targets_that_exist_and_the_whole_run_once() -> None:
    jobs = _yaml(_GITHUB / "workflows" / "ci.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]

    assert [target for command in commands for target in _made(command)] == ["check", "test"]
    assert {"check", "test"} <= _TARGETS
    assert commands.count(".ci/run") == 1
    assert all(job["timeout-minutes"] <= 90 for job in jobs.values())
    assert set(re.findall(r"^run make ([a-z-]+)$", (_ROOT / ".ci" / "run").read_text(), re.MULTILINE)) <= _TARGETS


def test_ci_tries_every_python_that_the_package_is_said_to_run_on() -> None:
    project = (_ROOT / "pyproject.toml").read_text()
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    jobs = _yaml(_GITHUB / "workflows" / "ci.yml")["jobs"]
    (tried,) = [job["strategy"]["matrix"]["python"] for job in jobs.values() if "strategy" in job]
    page = (_ROOT / "docs" / "testing.md").read_text()

    assert tried == declared
    assert f'requires-python = ">={declared[0]}"' in project
    assert re.findall(r"^\| (3\.\d+)\.\d+", page, re.MULTILINE) == declared


def test_a_bug_report_asks_for_what_a_bug_is_found_by() -> None:
    form = _yaml(_GITHUB / "ISSUE_TEMPLATE" / "bug_report.yml")
    fields = {field["id"]: field for field in form["body"] if "id" in field}

    assert {"version", "store", "transport", "log", "config"} <= set(fields)
    assert "`afl-stream config`" in fields["config"]["attributes"]["description"]
    assert "`afl-stream --version`" in fields["version"]["attributes"]["description"]


@pytest.mark.parametrize("name", ["bug_report", "feature_request", "question"])
def test_an_issue_form_has_what_github_wants_of_one(name: str) -> None:
    form = _yaml(_GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")

    assert {"name", "description", "body"} <= set(form)
    for field in form["body"]:
        assert field["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        assert field["attributes"]["value" if field["type"] == "markdown" else "label"]
    ids = [field["id"] for field in form["body"] if "id" in field]
    assert len(ids) == len(set(ids))


def _editor_settings(name: str) -> dict[str, str]:
    """Return what .editorconfig says of a file: later sections count more."""
    found: dict[str, str] = {}
    matches = False
    for line in (_ROOT / ".editorconfig").read_text().splitlines():
        if line.startswith("["):
            pattern = line.strip("[]")
            options = re.search(r"\{(.*)\}", pattern)
            patterns = [pattern.replace(options[0], one) for one in options[1].split(",")] if options else [pattern]
            matches = any(fnmatch(name, one) for one in patterns)
        elif matches and "=" in line:
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return found


def test_every_file_is_as_its_editor_would_write_it() -> None:
    wrong: dict[str, str] = {}
    for path in _tracked():
        content = path.read_bytes()
        if not content or b"\0" in content:
            continue
        settings, name = _editor_settings(path.name), str(path.relative_to(_ROOT))
        if b"\r" in content:
            wrong[name] = "line ends"
        elif not content.endswith(b"\n"):
            wrong[name] = "no line end at the end"
        elif re.search(rb"[ \t]$", content, re.MULTILINE):
            wrong[name] = "blanks at the end of a line"
        elif settings["indent_style"] == "space" and re.search(rb"^ *\t", content, re.MULTILINE):
            wrong[name] = "a tab"
        else:
            content.decode(settings["charset"])

    assert wrong == {}


def test_the_editor_has_the_line_length_of_the_formatters() -> None:
    ruff = re.findall(r"^line-length = (\d+)$", (_ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]

    assert _editor_settings("x.py")["max_line_length"] == ruff
    assert _editor_settings("x.afl")["max_line_length"] == str(WIDTH)
    assert _editor_settings("Makefile")["indent_style"] == "tab"


def test_security_says_how_to_report_and_which_versions_are_mended() -> None:
    text = (_ROOT / "SECURITY.md").read_text()

    assert f"| the latest release, {VERSION.rpartition('.')[0]} | yes |" in text
    for heading in ("Reporting", "Supported versions", "Threats and defences"):
        assert f"\n## {heading}\n" in text
    # What a setting or an option is called is checked where it is defined: here, that the page names today's.
    assert "answers.token_secret" in StreamConfig().describe()
    for name in ("`answers.token_secret`", "`agent.allowed_handlers`", "`--allow-scripts`"):
        assert name in text
