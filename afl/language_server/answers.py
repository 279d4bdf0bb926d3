"""The answers to an editor's questions about the documents of a workspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import from_fs_path

from afl.ast import SourceLocation
from afl.diagnostics import Diagnostic, display_name
from afl.errors import ParseError
from afl.formatting import FormatRefused, format_text
from afl.language_server.analysis import Analysis
from afl.language_server.completion import Completer, detailed
from afl.language_server.cursor import Wanted, cursor_at
from afl.language_server.documents import Document, Parsed, moved
from afl.language_server.hovers import hover_text
from afl.language_server.occurrences import occurrence_at, occurrences
from afl.language_server.outline import outline
from afl.language_server.project import Project
from afl.language_server.targets import Occurrence, Target, TargetKind
from afl.language_server.texts import Text, Units
from afl.validation.characters import check_characters

#: The page that describes the rules.
SOURCE_NAME = "afl"


class Answers:
    """The documents of a workspace, and the analyses of the programs that they make."""

    def __init__(self, folders: Iterable[Path], units: Units) -> None:
        self.project = Project(folders, units)
        self._analyses: dict[str, Analysis] = {}
        self._occurrences: dict[str, tuple[Analysis, list[Occurrence]]] = {}

    # -- programs -----------------------------------------------------------------------------------------------------

    def _analysis(self, document: Document, parsed: Parsed | None) -> Analysis:
        """Return the analysis of a document's program, with `parsed` as its tree."""
        parts = self.project.program_of(document, parsed)
        known = self._analyses.get(document.source_id)
        if known is None or not known.is_of(parts):
            known = self._analyses[document.source_id] = Analysis(parts, self.project.library)
        return known

    def forget(self, uri: str) -> None:
        """Drop the analysis of a closed document."""
        document = self.project.document(uri)
        if document is not None:
            self._analyses.pop(document.source_id, None)
            self._occurrences.pop(document.source_id, None)
        self.project.close(uri)

    # -- findings -----------------------------------------------------------------------------------------------------

    def findings(self, document: Document) -> list[lsp.Diagnostic]:
        """Return all errors and warnings of a document; without a tree, its syntax error and doubtful characters."""
        if document.syntax_error is not None:
            found = [document.syntax_error]
        else:
            found = self._analysis(document, document.parsed).findings(document.source_id)
        found = [*found, *check_characters(document.text.content, document.source_id)]
        return [_finding(item, document.text) for item in found]

    # -- names --------------------------------------------------------------------------------------------------------

    def _names(self, analysis: Analysis, document: Document) -> list[Occurrence]:
        known = self._occurrences.get(document.source_id)
        if known is None or known[0] is not analysis:
            known = self._occurrences[document.source_id] = analysis, occurrences(analysis, document.source_id)
        return known[1]

    def _occurrence(self, document: Document, position: lsp.Position) -> tuple[Analysis, Occurrence] | None:
        """Return the name at a position; None where no name stands, or an unknown one."""
        parsed = document.around(position.line)
        if parsed is None:
            return None
        analysis = self._analysis(document, parsed)
        line, column = document.text.place(position)
        if parsed.text is not document.text:
            line, column = moved((line, column), document.text, parsed.text)
        found = occurrence_at(self._names(analysis, document), line, column)
        return None if found is None else (analysis, found)

    def hover(self, document: Document, position: lsp.Position) -> lsp.Hover | None:
        found = self._occurrence(document, position)
        if found is None:
            return None
        analysis, occurrence = found
        text = hover_text(analysis, occurrence.target)
        if not text:
            return None
        is_current = analysis.text(document.source_id) is document.text
        return lsp.Hover(
            contents=lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=text),
            range=document.text.range(occurrence.place) if is_current else None,
        )

    def definition(self, document: Document, position: lsp.Position) -> list[lsp.Location]:
        found = self._occurrence(document, position)
        if found is None:
            return []
        analysis, occurrence = found
        return list(self._locations(analysis, occurrence.target.places))

    def _locations(self, analysis: Analysis, places: Iterable[SourceLocation]) -> Iterator[lsp.Location]:
        known = self.project.all_documents()
        for place in places:
            text = analysis.text(place.source_id)
            if text is not None and place.source_id is not None:
                document = known.get(place.source_id)
                uri = document.uri if document else from_fs_path(display_name(place.source_id))
                yield lsp.Location(uri=uri or place.source_id, range=text.range(place))

    def references(self, document: Document, position: lsp.Position, *, declared: bool) -> list[lsp.Location]:
        """Return every place in the workspace that names the same thing as the position."""
        found = self._occurrence(document, position)
        if found is None:
            return []
        analysis, occurrence = found
        target = occurrence.target
        locations: list[lsp.Location] = []
        for other in self._concerned(document, analysis, target):
            if other is not document:
                analysis = self._analysis(other, other.latest)
            named = [item for item in self._names(analysis, other) if item.target.is_same(target)]
            places = [item.place for item in named if declared or item.place not in target.places]
            locations += self._locations(analysis, dict.fromkeys(places))
        return locations

    def _concerned(self, document: Document, analysis: Analysis, target: Target) -> list[Document]:
        """Return the documents that may name a target."""
        if target.kind in (TargetKind.STEP, TargetKind.VARIABLE) or not target.places:
            return [document]
        namespace = target.name
        if target.kind is not TargetKind.NAMESPACE:
            owner = analysis.owner(target.places[0])
            namespace = owner.part.namespace if owner else ""
        known = self.project.all_documents()
        found = [known[source_id] for source_id in self.project.concerned(namespace)]
        return [document, *(item for item in found if item is not document)]

    # -- the rest -----------------------------------------------------------------------------------------------------

    def completion(self, document: Document, position: lsp.Position) -> list[lsp.CompletionItem]:
        cursor = cursor_at(document.text.content[: document.text.offset(position)])
        if cursor.wanted is Wanted.NOTHING:
            return []
        parsed = document.around(position.line)
        place = document.text.place(position)
        if parsed is not None and parsed.text is not document.text:
            place = moved(place, document.text, parsed.text)
        analysis = self._analysis(document, parsed)
        return Completer(analysis, document.source_id, self.project.namespaces()).propose(cursor, place)

    def detailed(self, item: lsp.CompletionItem) -> lsp.CompletionItem:
        """Return a proposal with all details, for the one that the user is looking at."""
        if not isinstance(item.data, dict):
            return item
        analysis = self._analyses.get(str(item.data.get("source")))
        return item if analysis is None else detailed(analysis, item, str(item.data.get("name")))

    def symbols(self, document: Document) -> list[lsp.DocumentSymbol]:
        parsed = document.latest
        return [] if parsed is None else outline(parsed.tree, parsed.text)

    def layout(self, document: Document) -> list[lsp.TextEdit]:
        """Return the edits that format a document; none while its syntax has a mistake."""
        if document.parsed is None:
            return []
        try:
            return _layout_edits(document.text)
        except (FormatRefused, ParseError):
            return []


def _finding(item: Diagnostic, text: Text) -> lsp.Diagnostic:
    place = None if item.line is None else SourceLocation(item.line, item.column or 1, item.end_line, item.end_column)
    return lsp.Diagnostic(
        range=text.range(place),
        message=f"{item.message}\nhint: {item.hint}" if item.hint else item.message,
        severity=lsp.DiagnosticSeverity.Error if item.is_error else lsp.DiagnosticSeverity.Warning,
        code=item.code,
        source=SOURCE_NAME,
        data={"hint": item.hint} if item.hint else None,
    )


def _layout_edits(text: Text) -> list[lsp.TextEdit]:
    """Return the edits that bring a valid text into the one layout of the language. Raises FormatRefused.

    The kind of line ends is the editor's business and stays what it is.
    """
    before = text.content
    after = format_text(before)
    if "\r\n" in before:
        after = after.replace("\n", "\r\n")
    if after == before:
        return []
    start = _shared_length(before, after)
    behind = _shared_length(before[start:][::-1], after[start:][::-1])
    changed = lsp.Range(text.position_of(start), text.position_of(len(before) - behind))
    return [lsp.TextEdit(range=changed, new_text=after[start : len(after) - behind])]


def _shared_length(one: str, other: str) -> int:
    """Return how many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))
