"""Errors that the language and the engine share: one base class, and the errors of the compiler."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from afl.core.errors import AFLError as AFLError

if TYPE_CHECKING:
    from afl.diagnostics import Diagnostic


#: The most errors that the text of a CompileError lists; `diagnostics` has all.
MAX_LISTED = 20


class ParseError(AFLError):
    """A text that does not follow the grammar.

    `line` and `column` are 1-based; `diagnostic` holds the same facts together with code, extent and hint.
    """

    def __init__(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        source_id: str | None = None,
        *,
        diagnostic: Diagnostic | None = None,
    ) -> None:
        place = "" if line is None else f" at line {line}" + ("" if column is None else f", column {column}")
        super().__init__(message + place)
        self.message = message
        self.line = line
        self.column = column
        self.source_id = source_id
        self.diagnostic = diagnostic

    def finding(self) -> Diagnostic:
        """Return the error as a diagnostic; an error that was constructed by hand gets one here."""
        from afl.diagnostics import Diagnostic, Severity

        return self.diagnostic or Diagnostic(
            code="PARSE_ERROR",
            severity=Severity.ERROR,
            message=self.message,
            line=self.line,
            column=self.column,
            source_id=self.source_id,
        )


class CompileError(AFLError):
    """A program that was refused; `diagnostics` holds every error and warning found, in source order."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        from afl.diagnostics import error_count

        self.diagnostics = tuple(diagnostics)
        errors = [diagnostic for diagnostic in self.diagnostics if diagnostic.is_error]
        lines = [diagnostic.headline() for diagnostic in errors[:MAX_LISTED]]
        if len(errors) > MAX_LISTED:
            lines.append(f"... and {len(errors) - MAX_LISTED} more")
        lines.insert(0, f"the program has {len(errors)} error{'' if len(errors) == 1 else 's'}:")
        super().__init__("\n".join([*lines, *filter(None, [error_count(errors)])]))


class SourceUnreadable(AFLError):
    """A source file that cannot be read as text, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason}: {path}")
        self.path = path
        self.reason = reason


class SourceMissing(SourceUnreadable, FileNotFoundError):
    """A source file that does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "File not found")
        self.errno, self.strerror, self.filename = errno.ENOENT, os.strerror(errno.ENOENT), path

    def __str__(self) -> str:
        # An OSError with these facts would speak in the words of the system instead.
        return f"{self.reason}: {self.path}"


class SourceTooLarge(SourceUnreadable):
    """A source that is larger than the compiler accepts; reading stops there."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(path, f"Larger than the {limit:,} bytes that a source may have; split it")
        self.limit = limit
