"""The command `schemas export`."""

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

_ENDINGS: Final = {"avro": ".avsc", "json-schema": ".schema.json"}


@click.command("export")
@files_argument(required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(_ENDINGS)),
    default="json-schema",
    show_default=True,
    help="The language of the schemas.",
)
@click.option("--facet", "facets", multiple=True, metavar="NAME", help="Only this facet; repeat for several.")
@click.option("-o", "--output", "folder", metavar="DIR", help="Folder for two files each; by default standard output.")
@common
def export_command(
    invocation: Invocation, files: Sequence[str], form: str, facets: Sequence[str], folder: str | None
) -> ExitCode:
    """Write the schemas of the payload that each event facet takes and of the result that it gives, for agents.

    Of the FILEs' facets; without FILEs, of the deployed programs'. On standard output they are an object by facet, with
    `payload` and `result`; with --output they are files FACET.payload.avsc, FACET.result.schema.json, ... What events
    are written with on their topics is `schemas generate`.

    \b
    Examples:
      afl-stream schemas export orders.afl --facet shop.Charge
      afl-stream schemas export orders.afl --format avro --output schemas
      afl-stream schemas export --output schemas
    """
    from afl_stream.commands.schemas.facet_documents import facet_documents, programs_of

    terminal = invocation.terminal()
    found = facet_documents(programs_of(invocation, files))
    for facet in facets:
        if facet not in found:
            hint = "these files do not declare it" if files else "no deployed program declares it"
            raise NotFound("event facet", facet, hint, near_names(facet, sorted(found)))
    chosen = {
        facet: documents.avro if form == "avro" else documents.json_schema
        for facet, documents in found.items()
        if not facets or facet in facets
    }
    if not chosen:
        where = "these files declare" if files else "the deployed programs declare"
        raise CommandRefused(f"{where} no event facet, so that there is no schema")
    if folder is None:
        (invocation.out or sys.stdout).write(_text(chosen))
        return ExitCode.OK
    written = _written(Path(folder), chosen, _ENDINGS[form])
    if terminal.as_json:
        terminal.document({"files": written})
    else:
        for facet, paths in written.items():
            terminal.line(f"{facet}: {', '.join(paths.values())}")
    return ExitCode.OK


def _written(folder: Path, chosen: Mapping[str, Mapping[str, Any]], ending: str) -> dict[str, dict[str, str]]:
    """Write the files, and return their names; a file that is the same already is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, dict[str, str]] = {}
    for facet, schemas in chosen.items():
        for what, schema in schemas.items():
            path, text = folder / f"{facet}.{what}{ending}", _text(schema)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
            written.setdefault(facet, {})[what] = str(path)
    return written


def _text(schema: object) -> str:
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"
