"""The `afl` command."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afl import __version__
from afl.cli import main
from afl.compiler import compile_text
from afl.emitter import to_text

from .programs import BILLING

WRONG = "namespace a { facet F() andThen { s = a.Nope() } }"


@pytest.fixture
def billing(tmp_path: Path) -> Path:
    path = tmp_path / "billing.afl"
    path.write_text(BILLING)
    return path


def run(*args: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "afl", *map(str, args)], input=stdin, capture_output=True, timeout=60)


def test_the_command_compiles_standard_input_to_standard_output() -> None:
    done = run("compile", "-", stdin=BILLING.encode())

    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == compile_text(BILLING).program_json


def test_the_command_ends_with_1_and_an_excerpt_for_a_wrong_program() -> None:
    done = run("check", "-", stdin=WRONG.encode())

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [
        "<stdin>:1:39: error[REF_UNKNOWN_FACET]: Unknown facet 'a.Nope'",
        f"  1 | {WRONG}",
        "    | " + " " * 38 + "^^^^^^",
        "Error: 1 error in <stdin>",
    ]


@pytest.mark.parametrize("command", ["check", "compile", "run", "fmt", "ast", "doc", "graph"])
def test_what_is_said_of_a_syntax_mistake_ends_with_a_line_that_says_error(command: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.afl"
    wrong.write_text("facet F(")
    done = run(command, wrong)

    # A look at files has found something; a run has nothing to run.
    assert (done.returncode, done.stdout) == (2 if command == "run" else 1, b"")
    assert done.stderr.decode().splitlines()[-1] == f"Error: 1 error in {wrong}"


def test_errors_of_several_files_are_counted_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.afl").write_text(f"namespace {name} {{ facet F(x: Nope) facet G(x: Nope) }}")
    done = run("check", tmp_path / "a.afl", tmp_path / "b.afl")

    assert done.stderr.decode().splitlines()[-1] == "Error: 4 errors in 2 files"


def test_warnings_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text("workflow W() => (x: Int = 1) andThen { s = F() } facet F()")
    done = run("check", tmp_path / "a.afl")

    assert done.returncode == 0
    assert "Error" not in done.stderr.decode()


def test_the_command_survives_a_reader_that_goes_away() -> None:
    text = "namespace a { " + " ".join(f"facet F{n}(x: Int)" for n in range(5_000)) + " }"
    with subprocess.Popen(
        [sys.executable, "-m", "afl", "compile", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(text.encode())
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()


def test_the_first_argument_may_be_a_file(billing: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([str(billing), "--compact", "--no-locations"]) == 0

    expected = to_text(compile_text(BILLING, include_locations=False).program_json, None)
    assert capsysbinary.readouterr().out.decode() == expected + "\n"


def test_standard_input_is_read_without_arguments(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"facet F()")))

    assert main([]) == 0
    assert json.loads(capsysbinary.readouterr().out)["declarations"][0]["name"] == "F"


def test_an_output_file_gets_the_program(billing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"

    assert main(["compile", str(billing), "-o", str(out), "--include-provenance"]) == 0
    assert capsys.readouterr() == ("", "")
    location = json.loads(out.read_bytes())["declarations"][0]["location"]
    assert location["provenance"] == {"type": "file", "path": str(billing)}


def test_an_output_that_cannot_be_written_is_an_error(
    billing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(billing), "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"Error writing output {tmp_path}: ")


def test_checking_writes_no_program(billing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["compile", "--check", str(billing)], ["check", str(billing)]):
        assert main(args) == 0
        assert capsys.readouterr() == ("", "OK: 1 source(s) checked\n")


def test_findings_are_written_as_json_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "日本.afl"
    path.write_text("workflow W()\nfacet F(x: 日)", encoding="utf-8")

    assert main(["check", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False
    assert [(item["code"], item["line"], item["sourceId"]) for item in found["diagnostics"]] == [
        ("PARSE_ERROR", 2, f"file://{path}")
    ]


def test_validation_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.afl"
    path.write_text(WRONG)

    assert main([str(path)]) == 1
    assert main(["compile", "--no-validate", str(path)]) == 0


def test_warnings_go_to_standard_error_beside_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.afl"
    path.write_text("workflow W()")

    assert main([str(path)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["type"] == "Program"
    assert err.startswith(f"{path}:1:10: warning[WORKFLOW_AT_TOP_LEVEL]: ")


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.afl").write_bytes(b"// caf\xe9")

    assert main([str(tmp_path / "none.afl"), str(tmp_path / "latin.afl"), str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"Error: File not found: {tmp_path / 'none.afl'}",
        f"Error: Not UTF-8 (byte 0xe9 at offset 6): {tmp_path / 'latin.afl'}",
        f"Error: Wanted a file, this is a directory: {tmp_path}",
    ]


@pytest.mark.parametrize("args", [["compile", "--nonsense"], ["check", "-o"], ["--nonsense"]])
def test_wrong_usage_ends_with_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    assert "Usage: afl" in capsys.readouterr().err


def test_help_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["--help"], ["compile", "--help"], ["check", "-h"]):
        assert main(args) == 0
        assert "Usage: afl" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"afl {__version__}\n"


def test_a_check_leaves_no_file_behind(billing: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    home = str(tmp_path / "home")
    environment = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home, "LOCALAPPDATA": home}

    done = subprocess.run(
        [sys.executable, "-m", "afl", "check", billing], env=environment, capture_output=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, b"OK: 1 source(s) checked\n")
    assert list((tmp_path / "home").iterdir()) == []


def test_formatting_rewrites_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.afl"
    path.write_text("facet  F( x:Int ) // x\n")

    assert main(["fmt", "--check", str(path)]) == 1
    assert capsys.readouterr() == ("", f"would change: {path}\n")
    assert main(["fmt", str(path)]) == 0
    assert path.read_text() == "facet F(x: Int) // x\n"
    assert main(["fmt", "--check", str(path)]) == 0
    assert [item.name for item in tmp_path.iterdir()] == ["f.afl"]


def test_standard_input_is_formatted_to_standard_output() -> None:
    done = run("fmt", "-", stdin=b"facet  F( )")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"facet F()\n", b"")


def test_a_format_diff_shows_what_would_change(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "f.afl"
    path.write_text("facet  F( )\n")

    assert main(["fmt", "--diff", str(path)]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines()[-2:] == ["-facet  F( )", "+facet F()"]
    assert path.read_text() == "facet  F( )\n"


def test_a_file_with_a_syntax_error_is_not_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.afl"
    path.write_text("facet  F(")

    assert main(["fmt", str(path)]) == 1
    assert "error[PARSE_ERROR]" in capsys.readouterr().err
    assert path.read_text() == "facet  F("


def test_findings_are_written_as_sarif_on_request(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "w rong.afl"
    path.write_text(WRONG)

    assert main(["check", "--sarif", str(path)]) == 1
    (run_log,) = json.loads(capsysbinary.readouterr().out)["runs"]
    (result,) = run_log["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("REF_UNKNOWN_FACET", "error")
    assert place["artifactLocation"]["uri"] == str(path).replace(" ", "%20")
    assert place["region"] == {"startLine": 1, "startColumn": 39, "endLine": 1, "endColumn": 45}


def test_the_tree_is_shown_as_json(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    path = tmp_path / "f.afl"
    path.write_text("facet F(x: Int)")

    assert main(["ast", "--no-locations", str(path)]) == 0
    tree = json.loads(capsysbinary.readouterr().out)
    assert tree["node"] == "Program"
    assert tree["facets"][0]["sig"]["params"][0]["type"] == {"node": "TypeRef", "name": "Int"}


@pytest.mark.parametrize(("typed", "meant"), [("chekc", "check"), ("comple", "compile"), ("grpah", "graph")])
def test_a_misspelt_command_is_told_the_right_one(typed: str, meant: str) -> None:
    done = run(typed, "x.afl")

    assert (done.returncode, done.stdout) == (2, b"")
    assert f"found '{typed}', which is neither a command nor a file; did you mean {meant}" in done.stderr.decode()


def test_a_file_that_is_named_like_a_command_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "chekc").write_text(BILLING)

    done = subprocess.run([sys.executable, "-m", "afl", "chekc"], cwd=tmp_path, capture_output=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, b"")
