"""The Language Server Protocol over standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from afl.core.release import VERSION
from afl.language_server.answers import Answers
from afl.language_server.documents import Document

#: The time that a text must be unchanged before all of it is checked. A fast typist presses five keys a second.
DEFAULT_QUIET_S = 0.2

_WATCHED = "**/*.{afl,ffl}"

#: Characters at which an editor asks for completion by itself.
_TRIGGERS = [".", "=", "(", ",", ":"]


class AFLLanguageServer(LanguageServer):
    """The server of one editor window. All work happens in the event loop, one message after the other."""

    def __init__(self, source_paths: Sequence[Path] = (), *, quiet_s: float = DEFAULT_QUIET_S) -> None:
        super().__init__("afl", VERSION)
        self._source_paths = list(source_paths)
        self._quiet_s = quiet_s
        self._pending: asyncio.TimerHandle | None = None
        self._answers: Answers | None = None

    @property
    def answers(self) -> Answers:
        """The answers about the workspace, available from the first message after `initialize`."""
        if self._answers is None:
            self._answers = Answers(self.folders(), self.workspace.position_codec)
            self._answers.project.refresh()
        return self._answers

    def folders(self) -> list[Path]:
        """Return the folders of the workspace and those of the libraries."""
        paths = [to_fs_path(uri) for uri in self.workspace.folders]
        if not paths and self.workspace.root_path:
            paths = [self.workspace.root_path]
        return [*(Path(path) for path in paths if path), *self._source_paths]

    def document(self, identifier: lsp.TextDocumentIdentifier | lsp.VersionedTextDocumentIdentifier) -> Document | None:
        return self.answers.project.document(identifier.uri)

    # -- findings -----------------------------------------------------------------------------------------------------

    def check_soon(self) -> None:
        """Check the open documents after a short pause in typing."""
        if self._pending is not None:
            self._pending.cancel()
        self._pending = asyncio.get_running_loop().call_later(self._quiet_s, self.check_now)

    def check_now(self) -> None:
        """Check the open documents and send the findings. A change in one text may be an error in another."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        for document in self.answers.project.open_documents:
            self.publish(document.uri, self.answers.findings(document), document.version)

    def publish(self, uri: str, findings: list[lsp.Diagnostic], version: int | None = None) -> None:
        params = lsp.PublishDiagnosticsParams(uri=uri, diagnostics=findings, version=version)
        self.text_document_publish_diagnostics(params)

    def watch_files(self) -> None:
        """Ask the editor to report changes of files by other programs, if it can."""
        workspace = self.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching is None or not watching.dynamic_registration:
            return
        options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers=[lsp.FileSystemWatcher(glob_pattern=_WATCHED)])
        registration = lsp.Registration(
            id="afl-files", method=lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=options
        )
        self.client_register_capability(lsp.RegistrationParams(registrations=[registration]))


def make_server(source_paths: Sequence[Path] = (), *, quiet_s: float = DEFAULT_QUIET_S) -> AFLLanguageServer:
    """Return a server that is not started yet; `source_paths` are folders with libraries beside the workspace."""
    server = AFLLanguageServer(source_paths, quiet_s=quiet_s)
    _follow_texts(server)
    _answer_questions(server)
    return server


def _follow_texts(server: AFLLanguageServer) -> None:
    """Register the handlers for texts that are opened, changed, saved and closed."""

    @server.feature(lsp.INITIALIZED)
    def initialized(_params: lsp.InitializedParams) -> None:
        server.watch_files()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        server.answers.project.open(item.uri, item.text, item.version)
        server.check_now()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        document = server.document(params.text_document)
        if document is not None:
            text = document.text
            for change in params.content_changes:
                text = text.edited(change)
            server.answers.project.change(document.uri, text, params.text_document.version)
            server.check_soon()

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(_params: lsp.DidSaveTextDocumentParams) -> None:
        server.answers.project.refresh()
        server.check_now()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.answers.forget(params.text_document.uri)
        server.publish(params.text_document.uri, [])
        server.check_soon()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(_params: lsp.DidChangeWatchedFilesParams) -> None:
        server.answers.project.refresh()
        server.check_now()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(_params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        server.answers.project.search(server.folders())
        server.check_now()


def _answer_questions(server: AFLLanguageServer) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        document = server.document(params.text_document)
        return [] if document is None else server.answers.definition(document, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document = server.document(params.text_document)
        if document is None:
            return []
        declared = params.context.include_declaration
        return server.answers.references(document, params.position, declared=declared)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.document(params.text_document)
        return None if document is None else server.answers.hover(document, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(_TRIGGERS, resolve_provider=True))
    def completion(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.document(params.text_document)
        return [] if document is None else server.answers.completion(document, params.position)

    @server.feature(lsp.COMPLETION_ITEM_RESOLVE)
    def detailed(params: lsp.CompletionItem) -> lsp.CompletionItem:
        return server.answers.detailed(params)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = server.document(params.text_document)
        return [] if document is None else server.answers.symbols(document)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = server.document(params.text_document)
        return [] if document is None else server.answers.layout(document)
