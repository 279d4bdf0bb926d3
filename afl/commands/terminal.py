"""The output of subcommands: findings for people or programs, JSON, and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from afl.core.exit_codes import ExitCode
from afl.core.json_objects import write_json as write_document
from afl.core.process.standard_streams import json_for
from afl.core.text.masking import secrets_of_environment
from afl.core.text.printable import MAX_LINE_CHARS, printable, printable_json

if TYPE_CHECKING:
    from afl.compiler import CheckedInput
    from afl.diagnostics import Diagnostic

#: The option that writes findings for programs.
json_findings = click.option("--json", "as_json", is_flag=True, help="Write findings to standard error as JSON.")


def say(text: str, *, err: bool = True) -> None:
    """Write a line for people: printable, and with the secrets of the environment masked."""
    write_line(printable(secrets_of_environment().masked(text), MAX_LINE_CHARS), err=err)


def write_line(text: str, *, err: bool) -> None:
    """Write a printable line; characters that the stream cannot encode are escaped."""
    # click.echo would write UTF-8 to a stream that declares ASCII.
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def report(diagnostics: Sequence[Diagnostic], texts: Sequence[tuple[str, str]], *, as_json: bool = False) -> None:
    """Write findings to standard error: for people with excerpts of the texts and a count of errors, or as JSON."""
    from afl.diagnostics import error_count, render

    if as_json:
        if diagnostics:
            write_json(findings_json(diagnostics), err=True)
        return
    by_source = {source_id: text for text, source_id in texts}
    colour = wants_colour()
    for diagnostic in diagnostics:
        text = by_source.get(diagnostic.source_id or "")
        write_line(render(diagnostic, text, colour=colour), err=True)
    count = error_count(diagnostics)
    if count is not None:
        say(count)


def report_checked(
    ctx: click.Context, checked: CheckedInput, *, as_json: bool = False, code: ExitCode = ExitCode.WORK_LEFT
) -> None:
    """Write the findings; end the command with this code when there are errors."""
    report(checked.diagnostics, texts_of(checked), as_json=as_json)
    if checked.has_errors:
        ctx.exit(code)


def texts_of(checked: CheckedInput) -> list[tuple[str, str]]:
    """Return the texts of everything that was compiled, each with its source id."""
    return [(entry.text, entry.source_id) for entry in checked.sources.all_sources]


def findings_json(diagnostics: Sequence[Diagnostic]) -> dict[str, object]:
    """Return findings as a JSON document for programs."""
    return {
        "valid": not any(diagnostic.is_error for diagnostic in diagnostics),
        "diagnostics": [diagnostic.to_json() for diagnostic in diagnostics],
    }


def wants_colour() -> bool:
    """Say whether standard error is a terminal that allows colour (NO_COLOR, https://no-color.org, is not set)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def to_json(document: object) -> str:
    """Return a document as JSON, with escapes for characters that would control a terminal."""
    return printable_json(write_document(document))


def write_json(document: object, *, err: bool = False) -> None:
    """Write a document to standard output or error: as UTF-8, or with escapes for what the encoding lacks."""
    text = to_json(document)
    if err:
        write_line(json_for(sys.stderr, text), err=True)
    else:
        write_bytes((json_for(sys.stdout, text) + "\n").encode())


def write_bytes(content: bytes) -> None:
    """Write a file's content to standard output: UTF-8 and line ends stay the same on every platform."""
    # The caller of `main` may have replaced it by a text stream.
    binary = getattr(sys.stdout, "buffer", None)
    if binary is not None:
        binary.write(content)
    else:
        sys.stdout.write(content.decode())


def write_output(ctx: click.Context, output: str | None, content: bytes) -> None:
    """Write to a file, or to standard output when none is named; end the command with 1 when that fails."""
    if output is None or output == "-":
        write_bytes(content)
        return
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        say(f"Error writing output {output}: {error.strerror or error}")
        ctx.exit(1)


def replace(path: Path, text: str) -> bool:
    """Replace the text of a file atomically: a crash while writing must not destroy a source file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(text.encode())
        beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path.resolve())
    except OSError as error:
        beside.unlink(missing_ok=True)
        say(f"Error writing {path}: {error.strerror or error}")
        return False
    return True
