"""The place in a source file of the statement that a failure is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from afl.compiled.program import CompiledProgram, Node, source_of
from afl.core.text.line_ends import with_line_feeds
from afl.diagnostics import Diagnostic, Severity, display_name, excerpt
from afl.errors import AFLError
from afl.syntax.parser import read_source


class SourcePlace(NamedTuple):
    """A place in a source. The end column is exclusive; the source id is "" where the program does not name it."""

    source_id: str
    line: int
    column: int
    end_column: int
    #: The expected first word at the place, where it is known.
    word: str = ""

    def __str__(self) -> str:
        """Return `file:line:column`, or `line N` where the file is not known."""
        if not self.source_id:
            return f"line {self.line}"
        return f"{display_name(self.source_id)}:{self.line}:{self.column}"


def find_place(program: CompiledProgram, path: str, facet: str, line: int) -> SourcePlace | None:
    """Return the place of the statement with this path in a run, this facet and this line.

    Returns None for an unknown line, and when several files have a match on it.
    """
    if not line:
        return None
    name = path.rpartition(".")[2].partition("[")[0]
    found = [place for declaration in program.declarations.values() for place in _on_line(declaration.node, line)]
    # The most specific match: the statement itself, else a similar one, else anything that begins on the line.
    called = facet.rpartition(".")[2]
    tests: tuple[Callable[[_Candidate], bool], ...] = (
        lambda item: item.name == name and item.called == called,
        lambda item: item.name == name or (name == "yield" and item.name == ""),
        lambda _item: True,
    )
    for test in tests:
        places = [item.place for item in found if test(item)]
        if places:
            first = min(places, key=lambda place: place.column)
            return first if len({place.source_id for place in places}) == 1 else None
    return None


def lines_at(place: SourcePlace, text: str | None) -> list[str]:
    """Return the line of a place in a text, with its number, and a caret line below it.

    Empty without a text, and for a text that has changed since: the expected word is not at the place any more.
    """
    if text is None or not place.column or not place.word:
        return []
    finding = Diagnostic(
        code="",
        severity=Severity.ERROR,
        message="",
        line=place.line,
        column=place.column,
        end_line=place.line,
        end_column=place.end_column,
    )
    lines = with_line_feeds(text).split("\n")
    at = lines[place.line - 1][place.column - 1 :] if place.line <= len(lines) else ""
    return excerpt(finding, text) if at.startswith(place.word) else []


def source_text(place: SourcePlace) -> str | None:
    """Return the text of the file that a place is in, if it can be read."""
    if not place.source_id.startswith("file://"):
        return None
    try:
        return read_source(display_name(place.source_id))
    except AFLError:
        return None


#: The first word of each kind of node.
_WORDS: Final = {
    "YieldStmt": "yield",
    "SysLogStmt": "sys",
    "SysAssertStmt": "sys",
    "AndThenBlock": "andThen",
    "WorkflowDecl": "workflow",
    "FacetDecl": "facet",
    "EventFacetDecl": "event",
    "CatchClause": "catch",
    "MixinSig": "with",
    "MixinCall": "with",
}


class _Candidate(NamedTuple):
    place: SourcePlace
    name: str
    called: str


def _on_line(declaration: Node, line: int) -> Iterator[_Candidate]:
    """Return what begins on a line of a declaration: itself, its statements, blocks and mixins."""
    source_id = source_of(declaration)
    for node in _nodes(declaration):
        place = node.get("location")
        if not isinstance(place, Mapping) or place.get("line") != line:
            continue
        call = node.get("call")
        target = str(call.get("target", "")) if isinstance(call, Mapping) else str(node.get("target", ""))
        name = str(node.get("alias") or node.get("name") or "")
        word = name if node.get("type") == "StepStmt" else _WORDS.get(str(node.get("type")), "")
        column = int(place.get("column", 0))
        yield _Candidate(
            SourcePlace(source_id, line, column, column + max(len(word), 1), word), name, target.rpartition(".")[2]
        )


def _nodes(node: Any) -> Iterator[Node]:
    """Return a node and all nodes in it."""
    if isinstance(node, Mapping):
        yield node
        for value in node.values():
            yield from _nodes(value)
    elif isinstance(node, list):
        for item in node:
            yield from _nodes(item)
