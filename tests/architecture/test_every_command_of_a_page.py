"""Every command that a page shows is typed by a test as it stands there, or says behind it why not."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.page_tables import ROOT
from tests.architecture.test_pages import TYPED_PAGES
from tests.architecture.walkthroughs import SHELL, UNTYPED, Command, blocks, walkthrough

_CLIENT_PAGES = "tests/integration/clients/test_typed_client_pages.py"
#: Typed by tests of their own, from the first command to the last.
_TYPED_ELSEWHERE = {
    "README.md": "tests/integration/kafka/test_typed_pages.py",
    "docs/kafka.md": "tests/integration/kafka/test_typed_pages.py",
    "clients/go/README.md": _CLIENT_PAGES,
    "clients/java/README.md": _CLIENT_PAGES,
    "clients/node/README.md": _CLIENT_PAGES,
    "clients/rust/README.md": _CLIENT_PAGES,
    "clients/shell/README.md": _CLIENT_PAGES,
    "docs/any-language.md": _CLIENT_PAGES,
    "docs/schemas.md": "tests/integration/registry/test_schemas_page.py",
    "docs/stores.md": "tests/integration/kafka/test_typed_pages.py",
    "docs/testing.md": "tests/integration/kafka/test_typed_pages.py",
    "docs/claude.md": "tests/architecture/test_claude_page.py",
    "docs/commands.md": "tests/architecture/test_mcp_page.py",
    "docs/mcp.md": "tests/architecture/test_mcp_page.py",
    "examples/approval/README.md": "tests/integration/kafka/test_typed_pages.py",
    "examples/with_faust/README.md": "tests/integration/kafka/test_faust_interop.py",
    "examples/with_faststream/README.md": "tests/integration/kafka/test_faststream_example.py",
    "examples/package_check/README.md": "tests/integration/kafka/test_typed_pages.py",
    "examples/release_notes/README.md": "tests/integration/kafka/test_typed_pages.py",
}
#: Typed block by block, each with what it needs before it.
_TYPED_IN_PARTS = {
    "schemas/README.md": (
        "test_answers_by_kcat.py",
        "test_raising_on_kafka.py",
        "test_typed_schemas_page.py",
        "test_presence_on_kafka.py",
    )
}
_COMMAND = re.compile(
    r"^(?:\$ |\.venv/bin/|[A-Z_]+=\S+ |cd \S+ && )*(?:afl|afl-stream|make|python|pip|export|kcat|mvn|java|docker|git"
    r"|kill|npm|node|go|cargo|ruby|apt-get|clients/\S+) ",
    re.M,
)
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^|\n\n)((?: {4}.*\n?)+)")


def _pages() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    yield from (ROOT / name for name in listed.stdout.split())


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _commands(page: Path) -> list[Command]:
    return [item for item in walkthrough(page.read_text()) if isinstance(item, Command)]


_ALL = {_name(page): page for page in _pages()}


def test_a_command_stands_in_a_block_of_shell() -> None:
    elsewhere = [
        (name, body.splitlines()[0])
        for name, page in _ALL.items()
        for language, body in blocks(page.read_text())
        if language not in SHELL and language in ("", "text") and _COMMAND.search(body)
    ]

    elsewhere += [
        (name, line.strip())
        for name, page in _ALL.items()
        for body in _INDENTED.findall(_FENCED.sub("", page.read_text()))
        for line in body.splitlines()
        if _COMMAND.match(line.strip())
    ]

    # What `dev` prints: the command that answers a step, which the page has typed below.
    assert elsewhere == [("docs/running.md", "1 event waits for an answer:")]


@pytest.mark.parametrize("name", [name for name, page in _ALL.items() if _commands(page)])
def test_every_command_of_a_page_is_typed_by_a_test_or_says_why_not(name: str) -> None:
    page = _ALL[name]
    if page in TYPED_PAGES or name in _TYPED_IN_PARTS:
        return
    if name in _TYPED_ELSEWHERE:
        assert (ROOT / _TYPED_ELSEWHERE[name]).is_file()
        assert Path(name).name in (ROOT / _TYPED_ELSEWHERE[name]).read_text()
        return
    # The rest repeat what README has people type.
    of_readme = {command.line for command in _commands(ROOT / "README.md") if command.untyped is None}
    here = [command.line for command in _commands(page) if command.untyped is None]
    assert [line for line in here if line not in of_readme] == []


@pytest.mark.parametrize("name", sorted(_TYPED_IN_PARTS))
def test_every_block_of_a_page_that_is_typed_in_parts_is_named_by_a_test(name: str) -> None:
    tests = "".join(next((ROOT / "tests" / "integration").rglob(file)).read_text() for file in _TYPED_IN_PARTS[name])
    named = set(re.findall(r"^[A-Z_, ]+ = (.*)$", tests, re.M))
    beginnings = [
        text for line in named for text in re.findall(r'"((?:kcat|printf|afl-stream|mvn|python)[^"]*)"', line)
    ]

    for language, body in blocks(_ALL[name].read_text()):
        if language in SHELL:
            assert any(body.startswith(beginning) for beginning in beginnings), body


def test_what_is_not_typed_could_be() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    untyped = [(command, name) for name, page in _ALL.items() for command in _commands(page) if command.untyped]

    assert {command.untyped for command, _ in untyped} == set(UNTYPED)
    for command, name in untyped:
        if command.untyped == "needs a package index":
            found = re.fullmatch(r"pip install 'afl-stream\[(\w+)\]'", command.line)
            assert found is not None, name
            assert found[1] in extras
        else:
            dry = subprocess.run(
                ["bash", "-c", f"{command.line} --dry-run"], cwd=ROOT, capture_output=True, check=False
            )
            assert dry.returncode == 0, f"{name}: {command.line}"
