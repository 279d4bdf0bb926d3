"""The command `schemas generate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from afl.core.text.near_names import near_names
from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.exit_codes import ExitCode

_ENDING: Final = ".avsc"


@click.command("generate")
@files_argument(required=True)
@click.option("--facet", "facets", multiple=True, metavar="NAME", help="Only this facet; repeat for several.")
@click.option("-o", "--output", "folder", metavar="DIR", help="Folder for a file a facet; by default standard output.")
@common
def generate_command(
    invocation: Invocation, files: Sequence[str], facets: Sequence[str], folder: str | None
) -> ExitCode:
    """Write the Avro schema of each event facet of the FILEs, as its events are written with it.

    The same signature gives the same text, byte for byte. On standard output, one facet's schema stands alone, and
    those of several are an object by facet. With --output each facet has a file FACET.avsc; files of other facets stay.

    \b
    Examples:
      afl-stream schemas generate orders.afl --facet shop.Charge > charge.avsc
      afl-stream schemas generate orders.afl --output schemas
    """
    from afl_stream.commands.programs import compile_program
    from afl_stream.commands.schemas.event_schemas import ProgramSchemas

    terminal = invocation.terminal()
    found = ProgramSchemas(compile_program(files, terminal, invocation.strictness)).schemas
    for facet in facets:
        if facet not in found:
            raise NotFound("event facet", facet, "it is not declared in these files", near_names(facet, sorted(found)))
    chosen = {facet: json.loads(found[facet].text) for facet in sorted(facets or found)}
    if not chosen:
        raise CommandRefused("these files declare no event facet, so that there is no schema")
    if folder is None:
        only = next(iter(chosen.values())) if len(chosen) == 1 and not invocation.as_json else chosen
        (invocation.out or sys.stdout).write(_text(only))
        return ExitCode.OK
    written = _written(Path(folder), chosen)
    if terminal.as_json:
        terminal.document({"files": {facet: str(path) for facet, path in written.items()}})
    else:
        for facet, path in written.items():
            terminal.line(f"{facet}: {path}")
    return ExitCode.OK


def _written(folder: Path, schemas: Mapping[str, Any]) -> dict[str, Path]:
    """Write a file for each schema; a file that is the same already is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for facet, schema in schemas.items():
        path, text = folder / f"{facet}{_ENDING}", _text(schema)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        written[facet] = path
    return written


def _text(schema: object) -> str:
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"
