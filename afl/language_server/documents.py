"""Documents: the texts of a workspace with their trees, which stay available while a text has a mistake."""

from __future__ import annotations

from functools import cached_property

from afl import ast
from afl.compiler import collector_paused
from afl.core.text.line_ends import with_line_feeds
from afl.diagnostics import Diagnostic
from afl.errors import ParseError
from afl.language_server.texts import Text
from afl.parser import AFLParser
from afl.sources.needed_names import needed_namespaces


class Parsed:
    """A tree and the text that it was made from, which may be older than the document's text."""

    def __init__(self, text: Text, tree: ast.Program) -> None:
        self.text = text
        self.tree = tree

    @cached_property
    def opened(self) -> frozenset[str]:
        """The namespaces that it opens."""
        return frozenset(namespace.name for namespace in self.tree.namespaces)

    @cached_property
    def needed(self) -> frozenset[str]:
        """The namespaces that it asks for."""
        return frozenset(needed_namespaces(self.tree))

    @cached_property
    def declared(self) -> frozenset[str]:
        """The qualified names that it declares."""
        found: set[str] = set()
        holders: list[ast.Program | ast.Namespace] = [self.tree, *self.tree.namespaces]
        for holder in holders:
            prefix = f"{holder.name}." if isinstance(holder, ast.Namespace) else ""
            callables: list[ast.Callable] = [*holder.facets, *holder.event_facets, *holder.workflows]
            found.update(prefix + item.sig.name for item in callables)
            found.update(prefix + item.name for item in holder.schemas)
        return frozenset(found)


class Document:
    """One version of a text; `before` is the last version of it that had a tree."""

    def __init__(
        self, uri: str, source_id: str, text: Text, before: Parsed | None = None, version: int | None = None
    ) -> None:
        """`version` is the editor's number for this state of the text; a file that is not open has none."""
        self.uri = uri
        self.source_id = source_id
        self.text = text
        self.version = version
        self._before = before
        self._patched: dict[frozenset[int], Parsed | None] = {}

    @cached_property
    def _outcome(self) -> tuple[Parsed | None, Diagnostic | None]:
        try:
            return Parsed(self.text, self._parse(self.text.content)), None
        except ParseError as error:
            return None, error.finding()

    @property
    def parsed(self) -> Parsed | None:
        """The tree of the text, None if it has none now."""
        return self._outcome[0]

    @property
    def syntax_error(self) -> Diagnostic | None:
        return self._outcome[1]

    @property
    def latest(self) -> Parsed | None:
        """The tree of the text, else the last one of an earlier version."""
        return self.parsed or self._before

    def edited(self, text: Text, version: int | None) -> Document:
        """Return the document with another text."""
        return Document(self.uri, self.source_id, text, self.latest, version)

    def around(self, line: int) -> Parsed | None:
        """Return a tree whose places match the text, as far as possible, to answer questions about a line.

        A text with a mistake is parsed without the line of the mistake, or without the line (from 0) that is being
        written; if that does not help either, the last earlier tree is used.
        """
        if self.parsed is not None:
            return self.parsed
        assert self.syntax_error is not None
        wrong = (self.syntax_error.line or 1) - 1
        # The parser notices a missing end of a statement mostly on the next line.
        for lines in ({line}, {wrong}, {wrong - 1}, {line, wrong}):
            found = self._without(frozenset(lines))
            if found is not None:
                return found
        return self._before

    def _without(self, lines: frozenset[int]) -> Parsed | None:
        if lines not in self._patched:
            try:
                tree = self._parse(self.text.without_lines(set(lines)))
                self._patched[lines] = Parsed(self.text, tree)
            except ParseError:
                self._patched[lines] = None
        return self._patched[lines]

    def _parse(self, content: str) -> ast.Program:
        with collector_paused():
            return AFLParser().parse(content, source_id=self.source_id)


def moved(place: tuple[int, int], now: Text, then: Text) -> tuple[int, int]:
    """Return where a place of a text was in an earlier version.

    Equal lines at the beginning and the end of both versions count as the same lines.
    """
    line, column = place
    new, old = (with_line_feeds(text.content).split("\n") for text in (now, then))
    same = 0
    while same < min(len(new), len(old)) and new[same] == old[same]:
        same += 1
    if line <= same:
        return place
    behind = 0
    while behind < min(len(new), len(old)) - same and new[-1 - behind] == old[-1 - behind]:
        behind += 1
    if line > len(new) - behind:
        return line + len(old) - len(new), column
    return min(line, len(old)), column
