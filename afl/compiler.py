"""Compile AFL texts into the program that the engine runs."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afl.ast import Program
from afl.core.frozen import frozen
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic
from afl.errors import CompileError, ParseError
from afl.parser import AFLParser, read_source
from afl.source import CompilerInput, FileOrigin, SourceRegistry

if TYPE_CHECKING:
    from afl.config import AFLConfig


@frozen
class Compiled:
    """A program that can be run, and the warnings about it."""

    _: KW_ONLY
    program_json: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...]


@frozen
class CheckedInput:
    """The analysis of sources: the tree of those that could be parsed, and all findings. `sources` and `registry` have
    the libraries that were found on the way, too.
    """

    _: KW_ONLY
    program: Program
    diagnostics: tuple[Diagnostic, ...]
    sources: CompilerInput
    registry: SourceRegistry

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.is_error for diagnostic in self.diagnostics)


def compile_text(
    text: str,
    filename: str = "<string>",
    *,
    include_locations: bool = True,
    strictness: Strictness = Strictness.LENIENT,
) -> Compiled:
    """Compile one text. Raises CompileError, which holds everything found wrong."""
    return _compile([(text, None if filename == "<string>" else filename)], include_locations, strictness)


def compile_files(
    paths: Iterable[str | Path],
    *,
    include_locations: bool = True,
    include_sources: bool = False,
    strictness: Strictness = Strictness.LENIENT,
) -> Compiled:
    """Compile files together, as one program; with sources, each declaration names the file it stands in.

    Raises CompileError, or SourceUnreadable for a file.
    """
    texts = [(read_source(path), FileOrigin(str(path)).to_source_id()) for path in paths]
    return _compile(texts, include_locations, strictness, include_sources=include_sources)


def check_input(
    sources: CompilerInput,
    *,
    config: AFLConfig | None = None,
    validate: bool = True,
    strictness: Strictness = Strictness.LENIENT,
) -> CheckedInput:
    """Parse and validate sources as one program, with the missing namespaces that `config` lets it find.

    `sources` itself is not changed. Libraries are compiled too: their errors count, their warnings are not reported.
    Raises MongoDBUnavailable.
    """
    sources = CompilerInput(list(sources.primary_sources), list(sources.library_sources))
    with collector_paused():
        program, findings = _parse([(entry.text, entry.source_id) for entry in sources.all_sources])
        registry = SourceRegistry.from_compiler_input(sources)
        if config is not None and config.resolver.is_wanted and not findings:
            from afl.resolver import resolver_of

            resolver = resolver_of(config, sources)
            try:
                if resolver is not None:
                    program, registry, sources = resolver.resolve(program, registry, sources)
            except ParseError as error:
                findings = [error.finding()]
        texts = [(entry.text, entry.source_id) for entry in sources.all_sources]
        libraries = {entry.source_id for entry in sources.library_sources}
        if validate or findings:
            findings = _all_findings(program, findings, texts, strictness, libraries)
    shown = [item for item in findings if item.is_error or item.source_id not in libraries]
    return CheckedInput(program=program, diagnostics=tuple(shown), sources=sources, registry=registry)


def _all_findings(
    program: Program,
    unparsed: list[Diagnostic],
    texts: Sequence[tuple[str, str | None]],
    strictness: Strictness,
    libraries: Collection[str] = (),
) -> list[Diagnostic]:
    """Return what is wrong with texts. One that cannot be parsed leaves names unknown: then nothing is validated."""
    if unparsed:
        return _in_order([*unparsed, *_of_characters(texts)], texts)
    from afl.validation import judged, validate_program

    found = _in_order([*validate_program(program), *_of_characters(texts)], texts)
    return judged(found, program, strictness, libraries)


def _parse(texts: Sequence[tuple[str, str | None]]) -> tuple[Program, list[Diagnostic]]:
    """Return the tree of the texts that can be parsed, and the errors of the others."""
    parser = AFLParser()
    programs: list[Program] = []
    findings: list[Diagnostic] = []
    for text, source_id in texts:
        try:
            programs.append(parser.parse(text, source_id=source_id))
        except ParseError as error:
            findings.append(error.finding())
    return programs[0] if len(programs) == 1 else Program.merge(programs), findings


def _of_characters(texts: Sequence[tuple[str, str | None]]) -> list[Diagnostic]:
    """Return the warnings about characters of texts, of those that cannot be parsed too."""
    if all(text.isascii() for text, _ in texts):
        return []
    from afl.validation.characters import check_characters

    return [item for text, source_id in texts for item in check_characters(text, source_id)]


def _in_order(findings: list[Diagnostic], texts: Sequence[tuple[str, str | None]]) -> list[Diagnostic]:
    order = {source_id: number for number, (_, source_id) in enumerate(texts)}
    return sorted(findings, key=lambda item: (order.get(item.source_id, -1), *item.sort_key()))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while a tree without cycles grows: that halves the time of a parse."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compile(
    texts: Sequence[tuple[str, str | None]],
    include_locations: bool,
    strictness: Strictness,
    *,
    include_sources: bool = False,
) -> Compiled:
    with collector_paused():
        program, findings = _parse(texts)
        findings = _all_findings(program, findings, texts, strictness)
        if any(finding.is_error for finding in findings):
            raise CompileError(findings)
        from afl.emitter import emit_dict

        document = emit_dict(program, include_locations, include_sources=include_sources)
    return Compiled(program_json=document, diagnostics=tuple(findings))
