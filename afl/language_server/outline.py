"""The outline of a text: namespaces, their declarations, and the steps of these."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types as lsp

from afl import ast
from afl.language_server.texts import Text
from afl.sources.needed_names import nodes
from afl.validation.findings import name_place

_CALLABLES: list[tuple[str, lsp.SymbolKind]] = [
    ("facets", lsp.SymbolKind.Function),
    ("event_facets", lsp.SymbolKind.Event),
    ("workflows", lsp.SymbolKind.Method),
    ("schemas", lsp.SymbolKind.Struct),
    ("implicits", lsp.SymbolKind.Constant),
]


def outline(tree: ast.Program, text: Text) -> list[lsp.DocumentSymbol]:
    """Return the outline of a tree; `text` is the text that it was made from."""
    found = list(_declarations(tree, text))
    for namespace in tree.namespaces:
        place = namespace.location
        if place is not None:
            members = list(_declarations(namespace, text))
            words = text.words(place, namespace.name.count(".") + 1, skip=1)
            name = words[0]._replace(end_line=words[-1].end_line, end_column=words[-1].end_column)
            found.append(_symbol(namespace.name, lsp.SymbolKind.Namespace, place, name, text, members))
    return sorted(found, key=_start)


def _declarations(holder: ast.Program | ast.Namespace, text: Text) -> Iterator[lsp.DocumentSymbol]:
    found: list[lsp.DocumentSymbol] = []
    for items, kind in _CALLABLES:
        for item in getattr(holder, items):
            place: ast.SourceLocation = item.location
            if isinstance(item, ast.SchemaDecl | ast.ImplicitDecl):
                name, words = item.name, text.words(place, 1, skip=1)
                found.append(_symbol(name, kind, place, words[0], text, []))
            else:
                name_at = name_place(item.sig.location, item.sig.name)
                found.append(_symbol(item.sig.name, kind, place, name_at or place, text, list(_steps(item, text))))
    yield from sorted(found, key=_start)


def _steps(declaration: ast.Callable, text: Text) -> Iterator[lsp.DocumentSymbol]:
    for node in nodes(declaration):
        if isinstance(node, ast.StepStmt) and node.location is not None:
            name = name_place(node.location, node.name) or node.location
            yield _symbol(node.name, lsp.SymbolKind.Variable, node.location, name, text, [], node.call.name)


def _symbol(
    name: str,
    kind: lsp.SymbolKind,
    place: ast.SourceLocation,
    name_at: ast.SourceLocation,
    text: Text,
    children: list[lsp.DocumentSymbol],
    detail: str | None = None,
) -> lsp.DocumentSymbol:
    whole, selection = text.range(place), text.range(name_at)
    if (whole.end.line, whole.end.character) < (selection.end.line, selection.end.character):
        # The place of a namespace without braces is that of its first line.
        whole = lsp.Range(whole.start, selection.end)
    return lsp.DocumentSymbol(
        name=name, kind=kind, range=whole, selection_range=selection, children=children, detail=detail
    )


def _start(symbol: lsp.DocumentSymbol) -> tuple[int, int]:
    return symbol.range.start.line, symbol.range.start.character
