"""Compiles AFL texts into the program that the engine runs."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afl.ast import Program
from afl.diagnostics import Diagnostic
from afl.emitter import emit_dict
from afl.errors import CompileError, ParseError
from afl.parser import AFLParser, read_source
from afl.source import FileOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A program that may be run, and the warnings found on the way."""

    program_json: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What is known of some texts: the tree of those that could be parsed, and all findings."""

    program: Program
    diagnostics: tuple[Diagnostic, ...]

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.is_error for diagnostic in self.diagnostics)


def compile_text(text: str, filename: str = "<string>", *, include_locations: bool = True) -> Compiled:
    """Compile one text. Raises CompileError, which holds everything found wrong."""
    return _compile([(text, None if filename == "<string>" else filename)], include_locations)


def compile_files(paths: Iterable[str | Path], *, include_locations: bool = True) -> Compiled:
    """Compile files together, as one program. Raises CompileError, or SourceUnreadable for a file."""
    texts = [(read_source(path), FileOrigin(str(path)).to_source_id()) for path in paths]
    return _compile(texts, include_locations)


def check_texts(texts: Sequence[tuple[str, str | None]], *, validate: bool = True) -> Checked:
    """Parse, and validate, texts (each with its source id) as one program.

    A text that cannot be parsed leaves names unknown, so validation is only for texts that all could be.
    """
    with collector_paused():
        return _check(texts, validate)


def _check(texts: Sequence[tuple[str, str | None]], validate: bool) -> Checked:
    parser = AFLParser()
    programs: list[Program] = []
    findings: list[Diagnostic] = []
    for text, source_id in texts:
        try:
            programs.append(parser.parse(text, source_id=source_id))
        except ParseError as error:
            findings.append(error.finding())
    program = programs[0] if len(programs) == 1 else Program.merge(programs)
    if validate and not findings:
        from afl.validation import validate_program

        order = {source_id: number for number, (_, source_id) in enumerate(texts)}
        findings = sorted(validate_program(program), key=lambda item: order.get(item.source_id, -1))
    return Checked(program=program, diagnostics=tuple(findings))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector away from a tree that grows and has no cycles: that halves the time of a parse."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compile(texts: Sequence[tuple[str, str | None]], include_locations: bool) -> Compiled:
    with collector_paused():
        return _check_and_emit(texts, include_locations)


def _check_and_emit(texts: Sequence[tuple[str, str | None]], include_locations: bool) -> Compiled:
    checked = _check(texts, validate=True)
    if checked.has_errors:
        raise CompileError(checked.diagnostics)
    document = emit_dict(checked.program, include_locations=include_locations)
    return Compiled(program_json=document, diagnostics=checked.diagnostics)
