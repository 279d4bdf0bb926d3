"""An editor without a window: an LSP client that starts `afl lsp` and speaks with it over its standard streams."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

#: Marks the cursor in the texts of the tests.
CURSOR = "‸"

#: A server that has not answered by then is not going to.
DEADLINE_S = 30.0

_T = TypeVar("_T")


class _Client(LanguageClient):
    """A client that notes how the server ended."""

    exit_code: int | None = None

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.exit_code = server.returncode


#: Warnings are errors, but for the one that pygls 2.1 causes on Python 3.14.
_WARNINGS = ("-W", "error", "-W", "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning")


class Editor:
    """One window on one folder. Positions are told by CURSOR in the texts that are opened."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self._runner = asyncio.Runner()
        self._published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self._versions: dict[str, int] = {}
        self.client = _Client("editor of the tests", "1")

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]  # so in pygls
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self._published.put_nowait(params)

        self.capabilities = self.run(self._start(arguments)).capabilities

    async def _start(self, arguments: tuple[str, ...]) -> lsp.InitializeResult:
        await self.client.start_io(sys.executable, *_WARNINGS, "-m", "afl", "lsp", *arguments)
        folder = lsp.WorkspaceFolder(uri=self.folder.as_uri(), name="work")
        params = lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), workspace_folders=[folder])
        result = await self.client.initialize_async(params)
        self.client.initialized(lsp.InitializedParams())
        return result

    def run(self, what: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(asyncio.wait_for(what, DEADLINE_S))

    def close(self) -> int | None:
        """Leave, and return the exit code of the server."""

        async def leave() -> int | None:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            await self.client.stop()  # type: ignore[no-untyped-call]  # pygls has no type for it
            return self.client.exit_code

        try:
            return self.run(leave())
        finally:
            self._runner.close()

    # -- texts --------------------------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> Cursor:
        """Open a text that need not be a file; return the cursor in it."""
        content = text.replace(CURSOR, "")
        uri = self.uri(name)
        self._versions[uri] = 1
        item = lsp.TextDocumentItem(uri=uri, language_id="afl", version=1, text=content)

        async def tell() -> None:
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(text_document=item))

        self.run(tell())
        return Cursor(self, uri, text)

    def edit(self, cursor: Cursor, text: str, *, over: int = 0) -> None:
        """Write a text at a cursor, over some characters behind it."""
        start = cursor.position
        end = lsp.Position(start.line, start.character + over)
        self._versions[cursor.uri] += 1
        identifier = lsp.VersionedTextDocumentIdentifier(uri=cursor.uri, version=self._versions[cursor.uri])
        change = lsp.TextDocumentContentChangePartial(range=lsp.Range(start, end), text=text)

        async def tell() -> None:
            params = lsp.DidChangeTextDocumentParams(text_document=identifier, content_changes=[change])
            self.client.text_document_did_change(params)

        self.run(tell())

    def tell_of_files(self) -> None:
        """Say that files have changed which are not open."""
        params = lsp.DidChangeWatchedFilesParams(changes=[])

        async def tell() -> None:
            self.client.workspace_did_change_watched_files(params)

        self.run(tell())

    def add_folder(self, folder: Path) -> None:
        """Take one more folder into the workspace."""
        added = lsp.WorkspaceFolder(uri=folder.as_uri(), name=folder.name)
        event = lsp.WorkspaceFoldersChangeEvent(added=[added], removed=[])

        async def tell() -> None:
            self.client.workspace_did_change_workspace_folders(lsp.DidChangeWorkspaceFoldersParams(event))

        self.run(tell())

    def findings(self, cursor: Cursor) -> list[lsp.Diagnostic]:
        """Return the findings of the latest version of a text, which may have to be waited for."""

        async def wait() -> list[lsp.Diagnostic]:
            while True:
                told = await self._published.get()
                if told.uri == cursor.uri and told.version == self._versions[cursor.uri]:
                    return list(told.diagnostics)

        return self.run(wait())


class Cursor:
    """A place in an open text, and what can be asked there."""

    def __init__(self, editor: Editor, uri: str, text: str) -> None:
        before = text.partition(CURSOR)[0] if CURSOR in text else ""
        last = before.rpartition("\n")[2]
        self._editor = editor
        self.uri = uri
        self.position = lsp.Position(before.count("\n"), len(last.encode("utf-16-le")) // 2)
        self._document = lsp.TextDocumentIdentifier(uri)

    def hover(self) -> str | None:
        """Return the Markdown that is shown."""
        asked = self._editor.client.text_document_hover_async(lsp.HoverParams(self._document, self.position))
        shown = self._editor.run(_awaited(asked))
        if shown is None:
            return None
        assert isinstance(shown.contents, lsp.MarkupContent)
        assert shown.contents.kind is lsp.MarkupKind.Markdown
        return shown.contents.value

    def definitions(self) -> list[tuple[str, int, int]]:
        """Return name of the file, line and character (from 0) of each definition."""
        params = lsp.DefinitionParams(self._document, self.position)
        found = self._editor.run(_awaited(self._editor.client.text_document_definition_async(params)))
        return _places(found)

    def references(self) -> list[tuple[str, int, int]]:
        """Return the places that mean the same, the declaration included."""
        context = lsp.ReferenceContext(include_declaration=True)
        params = lsp.ReferenceParams(context, self._document, self.position)
        found = self._editor.run(_awaited(self._editor.client.text_document_references_async(params)))
        return _places(found)

    def proposals(self) -> dict[str, lsp.CompletionItem]:
        """Return what is proposed, by its label."""
        params = lsp.CompletionParams(self._document, self.position)
        found = self._editor.run(_awaited(self._editor.client.text_document_completion_async(params)))
        assert isinstance(found, Sequence)
        return {item.label: item for item in found}

    def looked_at(self, item: lsp.CompletionItem) -> lsp.CompletionItem:
        """Return a proposal with what is shown of the one that is chosen."""
        shown = self._editor.run(_awaited(self._editor.client.completion_item_resolve_async(item)))
        assert isinstance(shown, lsp.CompletionItem)
        return shown

    def outline(self) -> list[lsp.DocumentSymbol]:
        params = lsp.DocumentSymbolParams(self._document)
        found = self._editor.run(_awaited(self._editor.client.text_document_document_symbol_async(params)))
        return [item for item in found or () if isinstance(item, lsp.DocumentSymbol)]

    def layout(self) -> list[lsp.TextEdit]:
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        params = lsp.DocumentFormattingParams(self._document, options)
        return list(self._editor.run(_awaited(self._editor.client.text_document_formatting_async(params))) or ())


def _places(found: object) -> list[tuple[str, int, int]]:
    assert isinstance(found, Sequence)
    places: list[tuple[str, int, int]] = []
    for item in found:
        assert isinstance(item, lsp.Location)
        places.append((item.uri.rpartition("/")[2], item.range.start.line, item.range.start.character))
    return places


async def _awaited(what: Any) -> Any:
    return await what
