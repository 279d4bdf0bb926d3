"""One place for what all parts need: clocks, the crash probe, waits between attempts, near names and more."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
Found = Callable[[ast.Module], Iterator[str]]


def named(node: ast.expr) -> str:
    return ast.unparse(node)


def definitions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Assign):
            yield from ((named(target), node.lineno) for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            yield named(node.target), node.lineno


def own_probes(tree: ast.Module) -> Iterator[str]:
    """Return a type or a default of a probe that is written out."""
    for name, line in definitions(tree):
        if name in ("Probe", "no_probe"):
            yield f"line {line}: {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            name = node.arg if isinstance(node, ast.arg) else named(node.target)
            if name.endswith("probe") and "Callable" in named(node.annotation):
                yield f"line {node.lineno}: {name}: {named(node.annotation)}"


def own_clocks(tree: ast.Module) -> Iterator[str]:
    """Return a port for the time, or the system's monotonic clock handed on as one."""
    for name, line in definitions(tree):
        if name.endswith("Clock"):
            yield f"line {line}: {name}"
    for node in ast.walk(tree):
        defaults = []
        if isinstance(node, ast.arguments):
            defaults = [default for default in (*node.defaults, *node.kw_defaults) if default is not None]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            defaults = [node.value]
        yield from (f"line {each.lineno}: {named(each)}" for each in defaults if named(each) == "time.monotonic")


def own_backoffs(tree: ast.Module) -> Iterator[str]:
    """Return the smaller one of a bound and a product or power: how a wait grows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and named(node.func) == "min":
            text = named(node)
            products = [each for each in node.args if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult)]
            if products and any(word in text for word in ("wait", "pause", "backoff", "delay")):
                yield f"line {node.lineno}: {text}"


def own_likeness(tree: ast.Module) -> Iterator[str]:
    """Return what compares names: all of `difflib` but the difference of two texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "difflib":
            yield from (f"line {node.lineno}: {each.name}" for each in node.names if each.name != "unified_diff")
        elif isinstance(node, ast.Attribute) and named(node.value) == "difflib" and node.attr != "unified_diff":
            yield f"line {node.lineno}: {named(node)}"


def own_exception_classes(tree: ast.Module) -> Iterator[str]:
    """Return the class of an exception that was caught, read from it by hand: it may lie, and have no end."""
    for handler in ast.walk(tree):
        if isinstance(handler, ast.ExceptHandler) and handler.name is not None:
            for node in ast.walk(handler):
                if isinstance(node, ast.Attribute) and named(node) == f"type({handler.name}).__name__":
                    yield f"line {node.lineno}: {named(node)}"


@pytest.mark.parametrize(
    ("home", "found_in"),
    [
        ("afl/core/probes.py", own_probes),
        ("afl/core/clock.py", own_clocks),
        ("afl/core/backoff.py", own_backoffs),
        ("afl/core/text/exception_text.py", own_exception_classes),
        ("afl/core/text/near_names.py", own_likeness),
    ],
)
def test_it_stands_in_its_module_and_in_no_other(home: str, found_in: Found) -> None:
    found: dict[str, list[str]] = {}
    for package in ("afl", "afl_stream"):
        for path in sorted((ROOT / package).rglob("*.py")):
            lines = list(found_in(ast.parse(path.read_text(encoding="utf-8"))))
            if lines and path.relative_to(ROOT).as_posix() != home:
                found[path.relative_to(ROOT).as_posix()] = lines

    assert found == {}


@pytest.mark.parametrize(
    ("found_in", "text", "count"),
    [
        (own_probes, "Probe = Callable[[str], None]\ndef f(probe: Callable[[str], None]) -> None: ...", 2),
        (own_clocks, "class MyClock: ...\ndef f(now_s: MonotonicClock = time.monotonic) -> None: ...", 2),
        (own_backoffs, "self._wait_s = min(2 * self._wait_s, 5.0)\npause = min(first * 2**tries, most)", 1),
        (own_exception_classes, "try: f()\nexcept OSError as no: print(f'{type(no).__name__}: {no}')", 1),
        (own_likeness, "from difflib import SequenceMatcher\nnear = difflib.get_close_matches(name, names, 1)", 2),
        (own_backoffs, "wait_s = min(FIRST * 2**waits, most)", 1),
    ],
)
def test_what_is_written_again_is_found(found_in: Found, text: str, count: int) -> None:
    assert len(list(found_in(ast.parse(text)))) == count
