"""What the documents tell people to type exists, and where they point is something."""

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

import afl.cli
import afl_stream.cli
from afl.compiler import compile_text
from tests.unit.afl.checking import check_texts

_ROOT = Path(__file__).parents[2]
_DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "schemas/*.md") for path in _ROOT.glob(pattern)
)
_FENCE = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^```afl\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: A program that shows a mistake says which, behind the language: ```afl error=REF_UNDEFINED_STEP
_MISTAKE = re.compile(r"^```afl (error|warning)=(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ANY_PROGRAM = re.compile(r"^```(?:afl|ffl)\b", re.MULTILINE | re.IGNORECASE)
_INLINE = re.compile(r"(?<!`)`((?:afl|afl-stream|make) [^`]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_LINK_TO_HEADING = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: A code span that is a path of the repository: it begins with one of its folders, and has no placeholder in it.
_PATH = re.compile(
    r"(?<!`)`((?:afl|afl_stream|benchmarks|constraints|docs|editors|examples|schemas|tests|tools|topics|\.ci"
    r"|\.github)/[a-z0-9_./-]*)`"
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
#: What `make test-all` runs in one: `test_every_test_is_in_one_tier`.
_TIERS = {"test", "test-kafka", "test-mongo", "test-long"}
#: What usage lines put into brackets: an option, or a name in capitals. A list in JSON is something else.
_OPTIONAL = re.compile(r"(?<=\s)\[((?:--[a-z]|[A-Z]{2})[^\]]*)\]")
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def _group_of(module: ModuleType) -> click.Group:
    """Return the command of a module: the one group that nothing else is below."""
    groups = [value for value in vars(module).values() if isinstance(value, click.Group)]
    below = [command for group in groups for command in group.commands.values()]
    return next(group for group in groups if group not in below)


_COMMAND_LINES = {"afl": _group_of(afl.cli), "afl-stream": _group_of(afl_stream.cli)}


def _commands(text: str) -> Iterator[str]:
    """Every command of a document: lines of shell blocks, and code spans that begin with one of our commands."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ").partition(" #")[0].strip().removesuffix(" &")
            if command and not command.startswith("#"):
                yield command
    yield from _INLINE.findall(text)


def _ids(path: Path) -> str:
    return str(path.relative_to(_ROOT))


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_every_command_of_a_document_exists(document: Path) -> None:
    wrong = {command: why for command in _commands(document.read_text()) if (why := _what_is_wrong(command))}

    assert wrong == {}


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = [link for link in _LINK.findall(document.read_text()) if "://" not in link]

    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_every_link_to_a_heading_finds_it(document: Path) -> None:
    links = _LINK_TO_HEADING.findall(document.read_text())
    missing = [
        f"{target}#{heading}"
        for target, heading in links
        if "://" not in target and heading not in _headings(document.parent / target if target else document)
    ]

    assert missing == []


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    assert [path for path in _PATH.findall(document.read_text()) if not (_ROOT / path).exists()] == []


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_every_program_of_a_document_compiles_without_a_finding(document: Path) -> None:
    programs = _PROGRAM.findall(document.read_text())

    assert [finding for program in programs for finding in compile_text(program).diagnostics] == []


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_every_program_of_a_document_that_shows_a_mistake_has_just_that_mistake(document: Path) -> None:
    mistakes = _MISTAKE.findall(document.read_text())

    shown = [[(severity, code)] for severity, code, _ in mistakes]
    assert [
        [(finding.severity.value, finding.code) for finding in check_texts([(program, None)]).diagnostics]
        for _, _, program in mistakes
    ] == shown


@pytest.mark.parametrize("document", _DOCUMENTS, ids=_ids)
def test_no_program_of_a_document_is_left_unchecked(document: Path) -> None:
    text = document.read_text()

    assert len(_ANY_PROGRAM.findall(text)) == len(_PROGRAM.findall(text)) + len(_MISTAKE.findall(text))


def test_contributing_names_the_places_of_new_things() -> None:
    assert len(set(_PATH.findall((_ROOT / "CONTRIBUTING.md").read_text()))) > 30


def test_the_readme_starts_with_the_demo_and_the_tests() -> None:
    commands = list(_commands((_ROOT / "README.md").read_text()))

    assert commands[:2] == ["make demo", "make test"]


def test_every_target_that_the_readme_has_people_make_is_made_by_ci_or_run_by_a_test() -> None:
    makefile = (_ROOT / "Makefile").read_text()
    in_ci = set(re.findall(r"^run make ([a-z-]+)\b", (_ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert "test-all" in in_ci
    in_ci |= _TIERS
    tests = "\n".join(path.read_text() for path in (_ROOT / "tests" / "integration").rglob("test_*.py"))
    named = {word for command in _commands((_ROOT / "README.md").read_text()) for word in _made_by(command)}
    # What a target runs stands in a test as the words of a process: "-m", "tools.kafka", "up".
    recipes = dict(re.findall(r"^([a-z-]+): .*\n\t@?\S+ -m ([\w. ]+?)(?: \$\(\w+\))?$", makefile, re.MULTILINE))
    run = {target for target, words in recipes.items() if ", ".join(f'"{word}"' for word in words.split()) in tests}

    assert named - in_ci - run == set()
    assert {"demo", "test", "demo-kafka", "kafka-up", "kafka-down"} <= named


def test_the_readme_has_every_extra_that_users_install() -> None:
    listed = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", (_ROOT / "README.md").read_text(), re.MULTILINE)
    declared = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    # The others are for work on this repository: tests, peers of benchmarks.
    assert sorted(listed) == sorted(
        set(declared) - {"benchmarks", "celery", "dev", "faust", "image", "mongodb-server", "quix"}
    )


def test_the_readme_has_every_command() -> None:
    readme = (_ROOT / "README.md").read_text()
    named = {f"{name} {word}" for name, group in _COMMAND_LINES.items() for word in _words_of(group)}

    assert {command for command in named if f"| `{command}" not in readme} == set()
    assert len(named) > 10


def test_every_path_that_the_architecture_names_is_there() -> None:
    text = (_ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:afl|afl_stream|benchmarks|schemas|tests|tools|topics)/[a-z_/]*(?:\.py)?)`", text))

    assert {name for name in named if not (_ROOT / name).exists()} == set()
    assert len(named) > 30


def test_every_package_has_its_place_in_the_architecture() -> None:
    text = (_ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.parent.name for folder in ("afl", "afl_stream") for path in (_ROOT / folder).glob("*/__init__.py")}

    assert {name for name in packages if f"{name}/`" not in text} == set()


def test_every_question_of_where_something_is_has_an_answer() -> None:
    text = (_ROOT / "ARCHITECTURE.md").read_text()
    section = text[text.index("## Where is ...?") : text.index("## A record's way")]
    answers = [row for row in section.splitlines() if row.startswith("|")][2:]

    assert len(answers) == 27
    assert [row for row in answers if not re.search(r"`[a-z_/]+\.py`", row)] == []


def test_the_makefile_targets_that_people_are_told_of_are_phony() -> None:
    makefile = (_ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())

    assert phony == set(_TARGET.findall(makefile))


def _headings(document: Path) -> set[str]:
    """Return what links call the headings of a document by: lower case, without punctuation, hyphens for blanks."""
    return {
        re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")
        for heading in _HEADING.findall(_BLOCK.sub("", document.read_text()))
    }


def _made_by(command: str) -> list[str]:
    """Return the targets of a make command."""
    words = shlex.split(command)
    return [word for word in words[1:] if "=" not in word] if words[0] == "make" else []


def _words_of(group: click.Group) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from (f"{name} {word}" for word in _words_of(command))
        else:
            yield name


def _what_is_wrong(command: str) -> str:
    """Why a command line can't work, or nothing. Only our own commands are looked into."""
    words = shlex.split(_OPTIONAL.sub(r" \1 ", command.partition(" > ")[0]))
    program = Path(words[0]).name
    if program == "make":
        unknown = set(_made_by(command)) - set(_TARGET.findall((_ROOT / "Makefile").read_text()))
        return f"no target {unknown}" if unknown else ""
    if program in _COMMAND_LINES:
        return _wrong_in_command_line(_COMMAND_LINES[program], words[1:])
    if words[:2] == ["python", "-m"] or words[1:2] == ["-m"]:
        module = _ROOT.joinpath(*words[2].split("."))
        is_ours = module.with_suffix(".py").exists() or (module / "__main__.py").exists()
        return "" if is_ours or words[2] == "pytest" else f"no module {words[2]}"
    if words[0].startswith((".", "tools/")):
        return "" if os.access(_ROOT / words[0], os.X_OK) else f"{words[0]} can't be run"
    return ""


def _wrong_in_command_line(command: click.Command, words: list[str]) -> str:
    """Walk down the subcommands, then have the command read the rest. The bare name of a command is a mention."""
    # With the settings that a real call has: click keeps what it makes for a command from its first context on.
    context = click.Context(command, **command.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]}"
        command, words = found, words[1:]
    if not words:
        return ""
    try:
        command.make_context(command.name, words, parent=context)
    except click.exceptions.Exit:
        # `--help` and `--version` answer, and end.
        return ""
    except click.UsageError as error:
        return error.format_message()
    return ""
