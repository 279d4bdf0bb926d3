"""Commands whose standard streams are closed, full, unread, or take nothing but ASCII."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.scenarios.command_lines import ROOT, Called

PROGRAM = """namespace caf {
  event facet Price(item: String) => (price: Double)
  workflow Buy(item: String) => (price: Double) andThen {
    p = Price(item = $.item)
    yield Buy(price = p.price)
  }
  /** Says "caf\u00e9". */
  workflow Say() => (say: String) andThen { yield Say(say = "caf\u00e9") }
}
"""
WRONG = 'namespace caf { workflow W() => (say: String) andThen { yield W(say = "caf\u00e9" + x.\u00e9) } }\n'
#: Prints in every way there is, also when it is loaded, and when the process ends.
HANDLERS = """
import atexit, os, subprocess, sys
print("caf\u00e9 is loaded")
atexit.register(print, "printed at the end")
FACET = "caf.Price"
def handle(payload):
    print("printed")
    sys.__stdout__.write("through the first stream\\n")
    os.write(1, b"by descriptor\\n")
    subprocess.run(["echo", "by a child"], check=True)
    return {"price": 1.5}
"""

#: Every command that needs no server and no editor.
COMMANDS: Sequence[Sequence[str]] = (
    ("afl", "check", "caf.afl"),
    ("afl", "check", "wrong.afl"),
    ("afl", "check", "wrong.afl", "--json"),
    ("afl", "fmt", "caf.afl", "--check"),
    ("afl", "run", "caf.afl", "--workflow", "Say"),
    ("afl", "run", "caf.afl", "--workflow", "Buy", "--input", "item=\u00e9"),
    ("afl", "graph", "caf.afl"),
    ("afl", "doc", "caf.afl"),
    ("afl", "compile", "caf.afl"),
    ("afl", "compile", "wrong.afl", "--json"),
    ("afl", "ast", "caf.afl"),
    ("afl", "--help"),
    ("afl", "no\u00e9"),
    ("afl-stream", "dev", "caf.afl", "--start", "Say"),
    ("afl-stream", "dev", "wrong.afl", "--json"),
    ("afl-stream", "topics", "plan", "caf.afl"),
    ("afl-stream", "deploy", "caf.afl"),
    ("afl-stream", "start", "Say", "--id", "caf"),
    ("afl-stream", "evaluator", "--until-idle", "--json"),
    ("afl-stream", "agent", "--handlers", "handlers_here.py", "--until-idle", "--json"),
    ("afl-stream", "handlers", "list"),
    ("afl-stream", "audit", "--until-idle"),
    ("afl-stream", "status"),
    ("afl-stream", "status", "caf", "--json"),
    ("afl-stream", "servers", "--json"),
    ("afl-stream", "continue", "caf:0a", "--result", '{"price": "caf\u00e9"}'),
    ("afl-stream", "fail", "caf:0a", "--message", "caf\u00e9"),
    ("afl-stream", "cancel", "caf"),
    ("afl-stream", "retry", "caf\u00e9"),
    ("afl-stream", "rerun", "caf:0a"),
    ("afl-stream", "reset", "caf\u00e9"),
    ("afl-stream", "store", "check"),
    ("afl-stream", "config", "--json"),
    ("afl-stream", "--help"),
)
#: Streams that are closed, and a reader that has gone before the first byte.
_TROUBLES: Sequence[tuple[str, str]] = (("<&- >&-", "2>&1 >/dev/null | true"), ("2>&-", "| true"))
#: What programs read: ASCII where the stream takes no more. All else that goes to a file is UTF-8.
FILES = {("afl", "fmt"), ("afl", "graph"), ("afl", "doc"), ("afl", "compile"), ("afl", "ast")}
#: Those whose documents tell nothing of the time.
SAME_EACH_TIME = {("afl", "run"), ("afl", "compile"), ("afl-stream", "status"), ("afl-stream", "config")}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    for name, text in (("caf.afl", PROGRAM), ("wrong.afl", WRONG), ("handlers_here.py", HANDLERS)):
        (folder / name).write_text(text, encoding="utf-8")
    assert called(folder, ["afl-stream", "dev", "caf.afl", "--start", "Say", "--id", "caf"]).code == 0
    return folder


def called(folder: Path, words: Sequence[str], before: str = "", **variables: str) -> Called:
    """Call a command by a shell, which does `before` to its streams first."""
    module = "afl_stream" if words[0] == "afl-stream" else "afl"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-m", module, *words[1:]]
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {before}', "sh", *command],
        cwd=folder, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip
    return Called(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


def assert_no_complaint(found: Called, words: Sequence[str]) -> None:
    for text in (found.out, found.err):
        assert "Traceback" not in text, words
        assert "Exception ignored" not in text, words
        assert "mistake of afl-stream" not in text, words
        assert "UnicodeEncodeError" not in text, words
    assert found.code not in (70, 120), (words, found)


@pytest.mark.long
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_gets_along_with_any_streams(deployed: Path, words: Sequence[str]) -> None:
    usual = called(deployed, words)
    assert_no_complaint(usual, words)

    ascii_only = called(deployed, words, PYTHONIOENCODING="ascii")
    assert_no_complaint(ascii_only, words)
    assert ascii_only.code == usual.code
    assert ascii_only.err.isascii()
    if tuple(words[:2]) not in FILES:
        assert ascii_only.out.isascii()
    if tuple(words[:2]) in SAME_EACH_TIME and usual.out.startswith(("{", "[")):
        assert json.loads(ascii_only.out) == json.loads(usual.out)

    # The commands take these in turn: what they do to streams is done in one place.
    closed, unread = _TROUBLES[COMMANDS.index(words) % len(_TROUBLES)]
    found = called(deployed, words, closed)
    assert_no_complaint(found, words)
    assert found.code == usual.code, (words, closed, found)
    assert_no_complaint(called(deployed, words, unread), words)


def test_a_completed_run_says_what_it_gives_where_output_takes_ascii_only(deployed: Path) -> None:
    words = ["afl-stream", "dev", "caf.afl", "--start", "Say", "--data-dir", "ascii"]
    found = called(deployed, words, PYTHONIOENCODING="ascii")

    assert (found.code, "caf\\xe9" in found.out) == (0, True)


def test_a_json_document_in_ascii_is_the_same_document(deployed: Path) -> None:
    found = called(deployed, ["afl", "run", "caf.afl", "--workflow", "Say"], PYTHONIOENCODING="ascii")

    assert found.out.isascii()
    assert found.document == {"say": "caf\u00e9"}


def test_what_handlers_print_in_any_way_is_no_part_of_the_json(deployed: Path) -> None:
    words = ["dev", "caf.afl", "--start", "Buy", "--input", "item=x", "--handlers", "handlers_here.py", "--json"]
    found = called(deployed, ["afl-stream", *words, "--data-dir", "printing"])

    assert (found.code, found.document["outputs"]) == (0, {"price": 1.5})
    for reported in ("is loaded", "printed", "through the first stream", "by descriptor", "by a child", "at the end"):
        assert reported in found.err


def test_without_json_handlers_print_to_standard_output(deployed: Path) -> None:
    words = ["dev", "caf.afl", "--start", "Buy", "--input", "item=x", "--handlers", "handlers_here.py"]
    found = called(deployed, ["afl-stream", *words, "--data-dir", "talking"])

    assert found.code == 0
    assert "by descriptor" in found.out


def test_no_file_gets_the_descriptor_of_a_closed_stream(deployed: Path) -> None:
    words = ["dev", "caf.afl", "--start", "Buy", "--input", "item=x", "--handlers", "handlers_here.py"]
    found = called(deployed, ["afl-stream", *words, "--data-dir", "closed"], ">&- 2>&-")
    status = called(deployed, ["afl-stream", "status", "--json", "--data-dir", "closed"])

    assert found.code == 0
    assert [run["outputs"] for run in status.document] == [{"price": 1.5}]


@pytest.mark.parametrize("words", [["afl", "compile", "caf.afl"], ["afl-stream", "config", "--json"]], ids=" ".join)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_does_not_fit_the_disk_is_told(deployed: Path, words: list[str]) -> None:
    found = called(deployed, words, "> /dev/full")

    assert found.code in (1, 3)
    assert "No space left on device" in found.err
    assert "Traceback" not in found.err


def test_a_runner_says_what_is_wrong_and_minds_no_closed_stream(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "afl.runtime.runner"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    reported = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
    closed = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&- 2>&-', "sh", *words], cwd=tmp_path, env=environment, timeout=120, check=False
    )

    assert reported.stderr
    assert closed.returncode == reported.returncode
