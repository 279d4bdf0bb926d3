"""The command `asyncapi`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode

_ROLES = ("evaluator", "agent", "client", "audit")


@click.command("asyncapi")
@files_argument(required=False)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(list(_ROLES)),
    help="Only the operations of this role; repeat for several.",
)
@click.option("-o", "--output", "file", metavar="PATH", help="Where the document goes; by default standard output.")
@common
def asyncapi_command(invocation: Invocation, files: Sequence[str], roles: Sequence[str], file: str | None) -> ExitCode:
    """Write the AsyncAPI 3 document of the deployment, as JSON: topics as channels, their records as messages, and what
    each role sends and receives.

    With the FILEs' facets; without FILEs, with those of the deployed programs. The settings say names, partitions and
    addresses.

    \b
    Examples:
      afl-stream asyncapi orders.afl --output asyncapi.json
      afl-stream asyncapi --role agent --bootstrap kafka:9092
    """
    from afl_stream.commands.schemas.asyncapi_document import AsyncApiDocument
    from afl_stream.commands.schemas.facet_documents import facet_documents, programs_of

    config, terminal = invocation.settings(), invocation.terminal()
    facets = facet_documents(programs_of(invocation, files))
    document = AsyncApiDocument(config, facets).document(roles or _ROLES)
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    if file is None:
        (invocation.out or sys.stdout).write(text)
        return ExitCode.OK
    Path(file).write_text(text, encoding="utf-8")
    if terminal.as_json:
        terminal.document({"file": file, "channels": len(document["channels"])})
    else:
        terminal.line(f"{file}: {len(document['channels'])} channels, {len(document['operations'])} operations")
    return ExitCode.OK
