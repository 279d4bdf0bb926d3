"""`afl compile` and `afl check`: compile sources into a program, or report what is wrong with them."""

from __future__ import annotations

import click

from afl.commands.inputs import Named, check_named, source_options
from afl.commands.terminal import (
    findings_json,
    json_findings,
    report,
    report_checked,
    say,
    texts_of,
    write_json,
    write_output,
)
from afl.core.process.click_options import strictness_options
from afl.core.release import VERSION


@click.command("compile")
@click.option("-o", "--output", metavar="OUT", help="Write the program to this file instead of standard output.")
@click.option("--compact", is_flag=True, help="Write one line.")
@click.option("--no-locations", is_flag=True, help="Leave source locations out of the program.")
@click.option("--include-provenance", is_flag=True, help="Name the source of every location.")
@click.option("--resolved", is_flag=True, help="Add what names mean, and which steps a step needs.")
@click.option("--check", is_flag=True, help="Only look for mistakes; write no program.")
@click.option("--no-validate", is_flag=True, help="Stop after the syntax.")
@json_findings
@strictness_options
@source_options
@click.pass_context
def compile_command(  # noqa: PLR0913 - click passes each option by its name
    ctx: click.Context,
    named: Named,
    output: str | None,
    compact: bool,
    no_locations: bool,
    include_provenance: bool,
    resolved: bool,
    check: bool,
    no_validate: bool,
    as_json: bool,
) -> None:
    """Compile FILEs, together, into one JSON program.

    A FILE is a path, or - for standard input, which is also read when none is named.
    """
    from afl.compiler import collector_paused

    ctx.with_resource(collector_paused())
    checked = check_named(named, validate=not no_validate)
    report_checked(ctx, checked, as_json=as_json)
    if check:
        say(f"OK: {len(checked.sources.all_sources)} source(s) checked")
        return
    from afl.emitter import JSONEmitter, to_text

    emitter = JSONEmitter(not no_locations, include_provenance, checked.registry)
    document = emitter.emit_dict(checked.program)
    if resolved:
        from afl.compiled.resolved import add_resolved

        document = add_resolved(document)
    write_output(ctx, output, (to_text(document, None if compact else 2) + "\n").encode())


@click.command("check")
@click.option("--json", "as_json", is_flag=True, help="Write the findings to standard output as JSON.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Write the findings to standard output as SARIF 2.1.0, for CI.")
@strictness_options
@source_options
@click.pass_context
def check_command(ctx: click.Context, named: Named, as_json: bool, as_sarif: bool) -> None:
    """Look for mistakes in FILEs, taken together."""
    from afl.compiler import collector_paused

    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    ctx.with_resource(collector_paused())
    checked = check_named(named)
    if as_json:
        write_json(findings_json(checked.diagnostics))
    elif as_sarif:
        from afl.output.sarif import sarif_log

        write_json(sarif_log(checked.diagnostics, VERSION))
    else:
        report(checked.diagnostics, texts_of(checked))
        if not checked.has_errors:
            say(f"OK: {len(checked.sources.all_sources)} source(s) checked")
    if checked.has_errors:
        ctx.exit(1)
