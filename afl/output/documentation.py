"""Write Markdown about the declarations of a text, from their doc comments."""

from __future__ import annotations

from collections.abc import Iterable

from afl import ast
from afl.core.text.line_ends import with_line_feeds
from afl.formatting import format_text
from afl.parser import AFLParser
from afl.syntax.comments import comments

_KEYWORDS: dict[type, str] = {
    ast.FacetDecl: "facet",
    ast.EventFacetDecl: "event facet",
    ast.WorkflowDecl: "workflow",
}


def markdown(text: str, source_id: str | None = None) -> str:
    """Return Markdown about one text; raises ParseError."""
    program = AFLParser().parse(text, source_id=source_id)
    return _Page(text).write(program)


def signature_text(item: ast.Callable | ast.SchemaDecl, written: str) -> str:
    """Return the text of a declaration, formatted and without comments: all of a schema, the signature of others.

    `written` is the text of the schema, or of the signature from its name on. Raises FormatRefused.
    """
    keyword = _KEYWORDS.get(type(item))
    return format_text(_without_comments(f"{keyword} {written}" if keyword else written))


class _Page:
    """The lines of the page so far, and the text that it describes."""

    def __init__(self, text: str) -> None:
        self._lines: list[str] = []
        self._source = with_line_feeds(text).removeprefix("\ufeff").split("\n")

    def write(self, program: ast.Program) -> str:
        self._declarations(program, level=1)
        for namespace in program.namespaces:
            self._add(f"# Namespace `{namespace.name}`")
            self._add(namespace.doc.description if namespace.doc else "")
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
            doc = item.doc or ast.Doc()
            self._add(f"{'#' * level} {kind} `{name}`")
            self._add(doc.description)
            self._add(f"```afl\n{self._signature(item)}```")
            if not isinstance(item, ast.SchemaDecl):
                self._table("Parameter", item.sig.params, doc.params)
                self._table("Return", item.sig.returns.params if item.sig.returns else [], doc.returns)
            if doc.sensitive:
                self._add("Sensitive: " + ", ".join(f"`{entry.name}`" for entry in doc.sensitive))

    def _table(self, title: str, slots: Iterable[ast.Parameter], texts: Iterable[ast.DocEntry]) -> None:
        """Add a table of what the tags say; a list without descriptions is clear enough in the signature."""
        said = {entry.name: entry.description for entry in texts}
        named = [slot.name for slot in slots if slot.name in said]
        rows = [f"| `{name}` | {said[name].replace('|', chr(92) + '|')} |" for name in named]
        if rows:
            self._add("\n".join([f"| {title} | |", "|---|---|", *rows]))

    def _signature(self, item: ast.Callable | ast.SchemaDecl) -> str:
        return signature_text(item, self._cut(item.location if isinstance(item, ast.SchemaDecl) else item.sig.location))

    def _cut(self, place: ast.SourceLocation | None) -> str:
        assert place is not None  # the parser gives every node one
        assert place.end_line is not None
        assert place.end_column is not None
        lines = self._source[place.line - 1 : place.end_line]
        lines[-1] = lines[-1][: place.end_column - 1]
        lines[0] = lines[0][place.column - 1 :]
        return "\n".join(lines)

    def _add(self, paragraph: str) -> None:
        if paragraph:
            self._lines.append(paragraph)


def _without_comments(text: str) -> str:
    """Return the text with blanks in place of its comments."""
    lines = with_line_feeds(text).split("\n")
    for comment in comments(text):
        parts = comment.text.split("\n")
        for number, part in enumerate(parts):
            line, start = comment.line - 1 + number, comment.column - 1 if number == 0 else 0
            lines[line] = lines[line][:start] + " " * len(part) + lines[line][start + len(part) :]
    return "\n".join(lines)
