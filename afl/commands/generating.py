"""`afl codegen`: types of payloads and results, and handlers to begin with, in other languages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from afl.commands.inputs import STDIN_NAME, Named, check_named, source_options
from afl.commands.terminal import json_findings, report_checked, say, write_output
from afl.core.process.click_options import strictness_options

#: Written out, so that `--help` loads no language; a test compares it.
LANGUAGES: Final = ("python", "typescript", "java", "go")
_PACKAGES: Final = {"java": re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*\Z"), "go": re.compile(r"[a-z_]\w*\Z")}


@click.command("codegen")
@click.option("--lang", "language", type=click.Choice(LANGUAGES), required=True, help="The language of the code.")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="DIR",
    help="Folder for the files; by default the types go to standard output.",
)
@click.option("--package", metavar="NAME", help="Package of the code, for Java and Go.  [default: afltypes]")
@click.option("--nullable", is_flag=True, help="Let every value be null, as AFL does.")
@json_findings
@strictness_options
@source_options
@click.pass_context
def codegen_command(
    ctx: click.Context,
    named: Named,
    language: str,
    output: str,
    package: str | None,
    nullable: bool,
    as_json: bool,
) -> None:
    """Write the types of what the event facets of FILEs take and give, for agents in a language.

    They go to a file that is written anew each time. In Python, --output also gets a module with a handler for each
    facet; it is yours: once it is there, it stays as it is.

    \b
    Examples:
      afl codegen orders.afl --lang python --output orders
      afl codegen orders.afl --lang typescript > afl-types.ts
      afl codegen orders.afl --lang java --package shop.orders --output src/main/java/shop/orders
      afl codegen orders.afl --lang go --output afltypes
    """
    if package is not None and not _fits(package, language):
        raise click.BadParameter(
            f"{package!r} is no package of {language}"
            if language in _PACKAGES
            else f"it is for {' and '.join(_PACKAGES)}, whose files say which package they are of",
            param_hint="--package",
        )
    from afl.codegen.writing import code_of
    from afl.compiled.program import CompiledProgram
    from afl.compiler import collector_paused
    from afl.diagnostics import display_name
    from afl.emitter import JSONEmitter

    ctx.with_resource(collector_paused())
    checked = check_named(named)
    report_checked(ctx, checked, as_json=as_json)
    program = CompiledProgram(JSONEmitter().emit_dict(checked.program))
    names = [display_name(entry.source_id) for entry in checked.sources.primary_sources]
    sources = ["standard input" if name == STDIN_NAME else Path(name).name for name in names]
    code = code_of(program, language, sources, nullable=nullable, package=package)
    if not (code.model.facets or code.model.schemas):
        say("Error: these files declare no event facet and no schema, so there is nothing to make code of")
        ctx.exit(1)
    if output == "-":
        write_output(ctx, None, code.types.encode())
        return
    try:
        for path, outcome in code.write(Path(output)):
            say(f"{path}: {outcome}")
    except OSError as error:
        say(f"Error writing {error.filename or output}: {error.strerror or error}")
        ctx.exit(1)


def _fits(package: str, language: str) -> bool:
    return language in _PACKAGES and _PACKAGES[language].match(package) is not None
