"""The pages for users hold: what they have people type runs, what they show is printed, and tables are the code's."""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import afl.cli
from afl.core.handlers.context import HandlerContext
from afl_stream.agent import answers as agent_answers
from afl_stream.wire.control_json import decode_json
from afl_stream.wire.dead_letters import DlqHeader
from afl_stream.wire.messages import StepContinue, StepFailed, StepUpdate
from tests.architecture.page_tables import ROOT, TABLES, pages, tables_in, with_tables
from tests.architecture.walkthroughs import Command, File, Shown, walkthrough

_DOCS = ROOT / "docs"
_WALKTHROUGHS: list[Any] = [
    # Dozens of processes one after another: too slow for `make test`, and on a busy machine for the usual limit.
    pytest.param(_DOCS / "agents.md", marks=[pytest.mark.long, pytest.mark.timeout(400)]),
    pytest.param(_DOCS / "dashboard.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "deploying.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "dead-letters.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "logging.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "audit.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "client.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "codegen.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "examples.md", marks=[pytest.mark.long, pytest.mark.timeout(400)]),
    pytest.param(_DOCS / "lifecycle.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    *sorted(page for page in (_DOCS / "language").glob("*.md") if "```sh\n" in page.read_text()),
    _DOCS / "language-tools.md",
    pytest.param(_DOCS / "migrating.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "monitoring.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "looking-back.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "operations.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "runners.md", marks=pytest.mark.long),
    *(
        pytest.param(page, marks=[pytest.mark.long, pytest.mark.timeout(300)])
        for page in sorted((_DOCS / "guide").glob("*.md"))
        if "```sh\n" in page.read_text()
    ),
    _DOCS / "scripts.md",
    _DOCS / "security.md",
    pytest.param(_DOCS / "sensitive-data.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "why.md", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    pytest.param(_DOCS / "running.md", marks=[pytest.mark.long, pytest.mark.timeout(400)]),
]
#: The pages whose commands are typed here.
TYPED_PAGES = {page if isinstance(page, Path) else page.values[0] for page in _WALKTHROUGHS}
_JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ERROR_TYPE = re.compile(r"`StepFailed`, type `(\w+)`")
_CONTEXT = re.compile(r"^\| `context\.(\w+)", re.MULTILINE)


@pytest.mark.parametrize("page", _WALKTHROUGHS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_tells_people_to_do_ends_as_it_says(page: Path, tmp_path: Path) -> None:
    printed = ""
    for item in walkthrough(page.read_text()):
        if isinstance(item, File):
            (tmp_path / item.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / item.name).write_text(item.text)
        elif isinstance(item, Shown):
            assert item.missing_in(printed) == [], printed
            printed = ""
        elif item.untyped is None:
            words = _words(item.line)
            # A page of programs has dozens of these: without a process for each it takes a second, not ten.
            if words and words[0] == "afl":
                printed += _called(item, words[1:], tmp_path)
            else:
                printed += _typed(item, tmp_path)


def test_the_tables_of_the_pages_are_as_the_code_has_them() -> None:
    stale = [page.name for page in pages() if with_tables(page.read_text()) != page.read_text()]

    assert stale == [], "rewrite them: python -m tests.architecture.page_tables"
    assert sorted(name for page in pages() for name in tables_in(page.read_text())) == sorted(TABLES)


def test_the_answers_shown_as_json_are_read_as_answers() -> None:
    read = [decode_json(block.encode()) for block in _JSON.findall((_DOCS / "agents.md").read_text())]

    assert [type(message) for message in read] == [StepContinue, StepFailed, StepUpdate]


def test_the_page_about_agents_names_every_failure_that_is_the_agents_own_word() -> None:
    own = {value for name, value in vars(agent_answers).items() if name.isupper() and isinstance(value, str)}

    assert set(_ERROR_TYPE.findall((_DOCS / "agents.md").read_text())) == own


def test_the_page_about_delivery_explains_every_header_of_a_dead_letter() -> None:
    page = (_DOCS / "delivery.md").read_text()

    assert [name.value for name in DlqHeader if f"`{name.value}`" not in page] == []


def test_the_page_about_agents_lists_all_that_a_handler_is_told() -> None:
    public = {name for name in dir(HandlerContext) if not name.startswith("_")}

    assert set(_CONTEXT.findall((_DOCS / "agents.md").read_text())) == public


def _words(line: str) -> list[str]:
    """Return what a line calls and with which arguments, or nothing if it takes a shell to say."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    return [] if any(set(word) <= set(lexer.punctuation_chars) for word in words) else words


def _called(command: Command, args: list[str], folder: Path) -> str:
    """Call `afl` in this process; what it printed."""
    content = io.BytesIO()
    printed = io.TextIOWrapper(content, encoding="utf-8", write_through=True)
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        exit_code = afl.cli.main(args)
    said = content.getvalue().decode()
    assert exit_code == command.exit_code, f"{command.line}: {said}"
    return said


def _typed(command: Command, folder: Path) -> str:
    """Type a command; what it printed."""
    commands = str(Path(sys.executable).parent)
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command.line}" if command.is_service else command.line],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "COLUMNS": "120",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    begun = ""
    if command.is_service:
        while "Ctrl-C" not in begun:
            said = process.stdout.readline()
            assert said, f"{command.line}: ended by itself: {begun}"
            begun += said
        process.send_signal(signal.SIGINT)
    printed = begun + process.communicate(timeout=60)[0]
    assert process.returncode == command.exit_code, f"{command.line}: {printed}"
    return printed
