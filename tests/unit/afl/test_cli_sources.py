"""The options of `afl` that name sources, and what is said when they name none."""

import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import afl
from afl.cli import main

_MAIN = "namespace main { use lib workflow W() => (x: Int) andThen { s = F() yield W(x = s.x) } }"
_LIB = "namespace lib { facet F() => (x: Int = 1) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: a program, and a library beside it and below it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "main.afl").write_text(_MAIN)
    (tmp_path / "lib/lib.afl").write_text(_LIB)
    return tmp_path


def compiled(capsysbinary: pytest.CaptureFixture[bytes]) -> list[str]:
    """Return the names of the namespaces of the program that was written."""
    out, err = capsysbinary.readouterr()
    assert err == b""
    return [item["name"] for item in json.loads(out)["declarations"]]


@pytest.mark.parametrize(
    "args",
    [
        ["main.afl", "lib/lib.afl"],
        ["--primary", "main.afl", "--primary", "lib/lib.afl"],
        ["--primary", "main.afl", "--library", "lib/lib.afl"],
        ["main.afl", "--library", "lib/lib.afl"],
        ["main.afl", "--source-path", "lib"],
        ["--auto-resolve", "main.afl"],
    ],
)
def test_a_library_is_found_where_it_is_said_to_be(
    folder: Path, args: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(args) == 0
    assert compiled(capsysbinary) == ["main", "lib"]


def test_the_settings_file_says_where_libraries_are(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (folder / "afl.config.json").write_text('{"resolver": {"sourcePaths": ["lib"]}}')
    assert main(["main.afl"]) == 0
    assert compiled(capsysbinary) == ["main", "lib"]

    (folder / "other.json").write_text("{}")
    assert main(["main.afl", "--config", "other.json"]) == 1
    assert b"Invalid use statement: namespace 'lib' does not exist" in capsysbinary.readouterr().err


def test_standard_input_has_libraries_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_MAIN.encode())))

    assert main(["--source-path", "lib"]) == 0
    assert compiled(capsysbinary) == ["main", "lib"]


def test_a_library_alone_is_compiled_without_standard_input(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["--library", "lib/lib.afl"]) == 0
    assert compiled(capsysbinary) == ["lib"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["main.afl", "--primary", "main.afl"], "Cannot use positional input together with --primary"),
        (["--mongo", "nothing"], "Invalid MongoDB spec 'nothing': wanted ID:NAME"),
        (["--mongo", ":name"], "Invalid MongoDB spec ':name': wanted ID:NAME"),
        (["--maven", "g:a"], "Invalid Maven spec 'g:a': wanted GROUP:ARTIFACT:VERSION[:CLASSIFIER]"),
        (["--maven", "g:a::c"], "Invalid Maven spec 'g:a::c': wanted GROUP:ARTIFACT:VERSION[:CLASSIFIER]"),
        (
            ["--maven", "g:a:1", "--maven-repository", "ftp://x"],
            "cannot load ftp://x/g/a/1/a-1-sources.jar: a Maven repository is at http, https or file",
        ),
        (["--library", "none.afl", "main.afl"], "File not found: none.afl"),
        (["--config", "none.json", "main.afl"], "the configuration none.json cannot be read: No such file"),
        (["--log-file", "lib", "main.afl"], "the log file lib cannot be written"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "check"])
def test_sources_that_cannot_be_had_end_the_command_with_1(
    folder: Path, command: str, args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *args]) == 1
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"Error: {said}")) == ("", True), err


def test_the_number_of_sources_includes_what_was_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--auto-resolve", "main.afl"]) == 0
    assert capsys.readouterr().err == "OK: 2 source(s) checked\n"


def test_a_mistake_in_a_library_is_shown_where_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lib/lib.afl").write_text("namespace lib { facet F(y: Nope = null) => (x: Int) }")

    assert main(["check", "--source-path", "lib", "main.afl"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "lib/lib.afl:1:28: error[REF_UNKNOWN_TYPE]: Unknown type 'Nope'",
        "  1 | namespace lib { facet F(y: Nope = null) => (x: Int) }",
        "    |                            ^^^^",
        "  hint: the builtin types are String, Int, Long, Double, Boolean and Json",
        "Error: 1 error in lib/lib.afl",
    ]


def test_the_log_goes_where_it_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lib/again.afl").write_text(_LIB)
    taken = "Duplicate namespace lib: lib/again.afl is taken, not lib/lib.afl"

    assert main(["check", "--source-path", "lib", "--log-file", "log.txt", "main.afl"]) == 0
    assert (folder / "log.txt").read_text() == f"WARNING afl.resolver: {taken}\n"
    assert main(["check", "--source-path", "lib", "--log-level", "error", "main.afl"]) == 0
    assert "Duplicate" not in capsys.readouterr().err
    assert logging.getLogger("afl").handlers == []


def test_provenance_tells_where_a_library_is_from(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["--include-provenance", "--source-path", "lib", "main.afl"]) == 0

    found = json.loads(capsysbinary.readouterr().out)["declarations"]
    assert [item["location"]["provenance"]["path"] for item in found] == ["main.afl", "lib/lib.afl"]
    assert [item["location"]["sourceId"] for item in found] == ["file://main.afl", "file://lib/lib.afl"]


def test_findings_are_json_for_every_command_that_asks_for_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "main.afl").write_text("namespace main { facet F(x: Nope) }")
    (folder / "syntax.afl").write_text("facet")

    for args in (["compile", "main.afl"], ["run", "main.afl"], ["graph", "main.afl"], ["fmt", "syntax.afl"],
                 ["doc", "syntax.afl"], ["ast", "syntax.afl"]):  # fmt: skip
        assert main([*args, "--json"]) == (2 if args[0] == "run" else 1)
        out, err = capsys.readouterr()
        assert (out, json.loads(err)["valid"]) == ("", False), args


def test_resolved_names_are_added_on_request(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["--resolved", "--compact", "--source-path", "lib", "main.afl"]) == 0

    program = json.loads(capsysbinary.readouterr().out)
    block = program["declarations"][0]["declarations"][0]["body"]
    assert program["schemaVersion"] == "1.0"
    assert block["steps"][0]["call"]["resolved"] == "lib.F"
    assert block["yield"]["needs"] == [block["steps"][0]["id"]]
    assert block["yield"]["call"]["resolved"] == "main.W"


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_findings_are_coloured_on_a_terminal_whose_owner_likes_that(
    folder: Path, variables: dict[str, str], coloured: bool
) -> None:
    terminal, end = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", "afl", "check", "main.afl"],
        env={**environment, "TERM": "xterm", **variables, "PYTHONPATH": str(Path(afl.__file__).parents[1])},
        stderr=end,
        timeout=60,
    )
    os.close(end)
    said = os.read(terminal, 100_000)
    os.close(terminal)

    assert done.returncode == 1
    assert b"Invalid use statement" in said
    assert (b"\x1b[1m\x1b[31merror" in said) is coloured
    assert (b"\x1b" in said) is coloured
