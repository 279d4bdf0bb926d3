"""Checks that every text and every compiled tree must pass."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from afl.compiled.program import CompiledProgram, ProgramError
from afl.compiler import compile_text
from afl.emitter import emit_dict, emit_json
from afl.engine.errors import UnknownFacet
from afl.engine.planning.planner import plan_workflow
from afl.errors import AFLError, ParseError
from afl.formatting import FormatRefused, format_text
from afl.graph import graph_of
from afl.graph.dot import dot
from afl.graph.mermaid import mermaid
from afl.graph.svg import svg
from afl.output.documentation import markdown
from afl.output.tree_json import tree_json
from afl.parser import decode_source, parse
from tests.unit.afl.checking import check_texts

#: Nothing here may take longer; it is far more than anything needs.
LONGEST_S = 20
#: A lone CR ends a line, too.
_LINE_END = re.compile(r"\r\n|\r|\n")


class Defect(AssertionError):
    """Something that must not happen, told with what is needed to see it again."""


def check_valid(text: str) -> None:
    """Check a valid program: no errors, the same bytes every time, formatting changes nothing, all else works."""
    checked = check_texts([(text, None)])
    errors = [diagnostic for diagnostic in checked.diagnostics if diagnostic.is_error]
    if errors:
        raise Defect(f"errors in a valid program: {errors[0]}")
    if emit_json(parse(text)) != emit_json(parse(text)):
        raise Defect("two compilations differ")
    formatted = format_text(text)
    if emit_json(parse(formatted), include_locations=False) != emit_json(parse(text), include_locations=False):
        raise Defect(f"formatting has changed the program to\n{formatted}")
    if format_text(formatted) != formatted:
        raise Defect("formatting what is formatted has changed it")
    tree = compile_text(text).program_json
    json.dumps(tree_json(parse(text)), allow_nan=False)
    markdown(text)
    program = CompiledProgram.from_text(json.dumps(tree, allow_nan=False).encode())
    for workflow in program.workflows():
        # An undeclared callee may be known to the agents: the compiler only warns.
        _try(lambda name=workflow.qualified_name: plan_workflow(program, name), UnknownFacet)  # type: ignore[misc]  # name is bound per lambda
        graph = graph_of(program, workflow)
        for draw in (dot, mermaid, svg):
            draw(graph)


def check_any(content: bytes) -> bool:
    """Any bytes at all: whatever is wrong is said as such. Says whether they are a valid program."""
    try:
        text = decode_source(content, "fuzz.afl")
    except AFLError:
        return False
    checked = check_texts([(text, None)])
    for diagnostic in checked.diagnostics:
        _check_diagnostic(diagnostic, text)
    _try(lambda: format_text(text), FormatRefused, ParseError)
    _try(lambda: markdown(text), FormatRefused, ParseError)
    try:
        tree = parse(text)
    except ParseError:
        if not checked.has_errors:
            raise Defect("what does not parse has no errors") from None
        return False
    # What has errors has a tree, too, that editors and `afl ast` look at.
    json.dumps(tree_json(tree), allow_nan=False)
    emitted = emit_dict(tree)
    if not checked.has_errors:
        check_tree(json.loads(json.dumps(emitted, allow_nan=False)), drawn=True)
    return not checked.has_errors


def check_tree(tree: Any, *, drawn: bool = False) -> bool:
    """Any JSON: the engine makes plans of it, or says what is wrong. Says whether it had a program."""
    try:
        program = CompiledProgram(tree)
    except ProgramError:
        return False
    whole = True
    for workflow in program.workflows():
        try:
            plan_workflow(program, workflow.qualified_name)
        except AFLError:
            whole = False
        except ProgramError:
            whole = False
        else:
            if drawn:
                for draw in (dot, mermaid, svg):
                    draw(graph_of(program, workflow))
    return whole


def check_json(content: bytes) -> bool:
    """Any bytes that are said to be a compiled program."""
    try:
        program = CompiledProgram.from_text(content)
    except ProgramError:
        return False
    return check_tree(program.tree)


@contextmanager
def in_time() -> Iterator[None]:
    """Raise `Defect` in the middle of what takes too long. For the main thread."""

    def stop(number: int, frame: object) -> None:
        raise Defect(f"it takes longer than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _check_diagnostic(diagnostic: Any, text: str) -> None:
    """Check that a finding has a place in the text, and a message."""
    if not diagnostic.code or not diagnostic.message:
        raise Defect(f"a finding that says nothing: {diagnostic}")
    lines = len(_LINE_END.split(text))
    if diagnostic.line is not None and not 1 <= diagnostic.line <= lines:
        raise Defect(f"a finding outside of the text: {diagnostic}")


def _try(run: Callable[[], object], *allowed: type[Exception]) -> None:
    with suppress(*allowed):
        run()
