"""Writes Markdown about the declarations of a text, from their doc comments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from afl import ast
from afl.comments import comments, doc_comments
from afl.formatting import format_text
from afl.parser import AFLParser

_TAG = re.compile(r"@(param|returns?)\s+([A-Za-z_][A-Za-z0-9_]*)(?:\s+(.*))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """What a doc comment says: a description, and a text for each parameter and return it names."""

    description: str
    params: tuple[tuple[str, str], ...] = ()
    returns: tuple[tuple[str, str], ...] = ()


def read_doc(comment: str) -> Doc:
    """Return what a doc comment, with its marks, says. Names in tags are not checked."""
    described: list[str] = []
    tagged: dict[str, list[tuple[str, str]]] = {"param": [], "return": []}
    for line in comment.removeprefix("/**").removesuffix("*/").split("\n"):
        kept = line.strip()
        if kept.startswith("*"):
            kept = kept[1:].removeprefix(" ")
        tag = _TAG.match(kept)
        if tag:
            tagged[tag[1].removesuffix("s")].append((tag[2], (tag[3] or "").strip()))
        else:
            described.append(kept)
    return Doc(
        description="\n".join(described).strip(), params=tuple(tagged["param"]), returns=tuple(tagged["return"])
    )


def markdown(text: str, source_id: str | None = None) -> str:
    """Return Markdown about one text; raises ParseError."""
    program = AFLParser().parse(text, source_id=source_id)
    return _Page(text).write(program)


class _Page:
    """The lines of the page so far, and the text that it is about."""

    def __init__(self, text: str) -> None:
        self._lines: list[str] = []
        self._source = text.removeprefix("\ufeff").split("\n")
        self._docs = doc_comments(text)

    def write(self, program: ast.Program) -> str:
        self._declarations(program, level=1)
        for namespace in program.namespaces:
            self._add(f"# Namespace `{namespace.name}`")
            self._add(self._doc(namespace).description)
            self._declarations(namespace, level=2)
        return "\n\n".join(self._lines) + "\n" if self._lines else ""

    def _declarations(self, holder: ast.Program | ast.Namespace, level: int) -> None:
        found: list[tuple[str, ast.Callable | ast.SchemaDecl]] = [
            *(("Facet", item) for item in holder.facets),
            *(("Event facet", item) for item in holder.event_facets),
            *(("Workflow", item) for item in holder.workflows),
            *(("Schema", item) for item in holder.schemas),
        ]
        for kind, item in sorted(found, key=lambda pair: pair[1].location or (0, 0)):
            name = item.name if isinstance(item, ast.SchemaDecl) else item.sig.name
            doc = self._doc(item)
            self._add(f"{'#' * level} {kind} `{name}`")
            self._add(doc.description)
            self._add(f"```afl\n{self._signature(kind, item)}```")
            if not isinstance(item, ast.SchemaDecl):
                self._table("Parameter", item.sig.params, doc.params)
                self._table("Return", item.sig.returns.params if item.sig.returns else [], doc.returns)

    def _table(self, title: str, slots: Iterable[ast.Parameter], texts: Iterable[tuple[str, str]]) -> None:
        """Add what the tags say; a list of which nothing is said is plain enough in the signature."""
        said = dict(texts)
        named = [slot.name for slot in slots if slot.name in said]
        rows = [f"| `{name}` | {said[name].replace('|', chr(92) + '|')} |" for name in named]
        if rows:
            self._add("\n".join([f"| {title} | |", "|---|---|", *rows]))

    def _signature(self, kind: str, item: ast.Callable | ast.SchemaDecl) -> str:
        if isinstance(item, ast.SchemaDecl):
            return format_text(_without_comments(self._cut(item.location)))
        return format_text(_without_comments(f"{kind.lower()} {self._cut(item.sig.location)}"))

    def _cut(self, place: ast.SourceLocation | None) -> str:
        assert place is not None  # the parser gives every node one
        assert place.end_line is not None
        assert place.end_column is not None
        lines = self._source[place.line - 1 : place.end_line]
        lines[-1] = lines[-1][: place.end_column - 1]
        lines[0] = lines[0][place.column - 1 :]
        return "\n".join(lines)

    def _doc(self, item: ast.ASTNode) -> Doc:
        assert item.location is not None
        return read_doc(self._docs.get((item.location.line, item.location.column), "/***/"))

    def _add(self, paragraph: str) -> None:
        if paragraph:
            self._lines.append(paragraph)


def _without_comments(text: str) -> str:
    """Return the text with blanks in place of its comments."""
    lines = text.split("\n")
    for comment in comments(text):
        parts = comment.text.split("\n")
        for number, part in enumerate(parts):
            line, start = comment.line - 1 + number, comment.column - 1 if number == 0 else 0
            lines[line] = lines[line][:start] + " " * len(part) + lines[line][start + len(part) :]
    return "\n".join(lines)
