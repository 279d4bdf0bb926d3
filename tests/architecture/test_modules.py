"""Rules that every module of the packages keeps."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]

#: A docstring before anything but comments; hundreds of modules need not be parsed for that.
_SENTENCE = re.compile(r'(?:#.*\n|\s*\n)*"""\s*[^\s"]')
#: Longer than this, a file has two subjects: name them.
_MOST_LINES = 450
#: The same for a function, its docstring included.
_MOST_FUNCTION_LINES = 75


def _modules(*folders: str) -> Iterator[tuple[str, str]]:
    """Path and text of every module."""
    for folder in folders:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(_ROOT)), path.read_text()


def test_every_module_opens_with_a_sentence_that_says_what_it_is_for() -> None:
    silent = [
        name
        for name, text in _modules("afl", "afl_stream", "benchmarks", "examples", "tests", "tools")
        if text.strip() and not _SENTENCE.match(text)
    ]

    assert silent == []


def test_no_module_is_longer_than_a_subject() -> None:
    modules = _modules("afl", "afl_stream")
    long = {name: text.count("\n") for name, text in modules if text.count("\n") > _MOST_LINES}

    assert long == {}


def test_no_function_is_longer_than_a_thought() -> None:
    long = {
        f"{name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for name, text in _modules("afl", "afl_stream")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= _MOST_FUNCTION_LINES
    }

    assert long == {}


def test_the_basenames_of_test_files_are_unique() -> None:
    names = [Path(name).name for name, _ in _modules("tests")]
    tests = [name for name in names if name.startswith("test_")]

    assert sorted(tests) == sorted(set(tests))
