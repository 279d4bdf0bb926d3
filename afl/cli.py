"""The `afl` command: compiles, checks, formats and shows AFL files."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from afl import __version__
from afl.diagnostics import Diagnostic, display_name, render
from afl.errors import AFLError, ParseError, SourceUnreadable

#: The name that stands for standard input.
STDIN = "-"


class _CompileByDefault(click.Group):
    """A group whose first argument may be a file: `afl orders.afl` is `afl compile orders.afl`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_group = bool(args) and (args[0] in self.commands or args[0] in (*ctx.help_option_names, "--version"))
        if not asks_for_group and (args or not sys.stdin.isatty()):
            args = ["compile", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_CompileByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="afl %(version)s")
def afl() -> None:
    """Compile and check workflows written in AFL. FILE is a path, or - for standard input."""


@afl.command("compile")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("-o", "--output", metavar="OUT", help="Write the program to this file instead of standard output.")
@click.option("--no-locations", is_flag=True, help="Leave source locations out of the program.")
@click.option("--include-provenance", is_flag=True, help="Name the source of every location.")
@click.option("--compact", is_flag=True, help="Write one line.")
@click.option("--check", is_flag=True, help="Only look for mistakes; write no program.")
@click.option("--no-validate", is_flag=True, help="Stop after the syntax.")
@click.pass_context
def compile_command(
    ctx: click.Context,
    files: tuple[str, ...],
    output: str | None,
    no_locations: bool,
    include_provenance: bool,
    compact: bool,
    check: bool,
    no_validate: bool,
) -> None:
    """Compile FILEs, together, into one JSON program."""
    from afl.compiler import check_texts, collector_paused
    from afl.emitter import JSONEmitter
    from afl.source import FileOrigin, SourceRegistry

    ctx.with_resource(collector_paused())
    texts = _read(ctx, files)
    checked = check_texts(texts, validate=not no_validate)
    _report(checked.diagnostics, texts)
    if checked.has_errors:
        ctx.exit(1)
    if check:
        click.echo(f"OK: {len(texts)} source(s) checked", err=True)
        return
    registry = SourceRegistry({name: FileOrigin(name.removeprefix("file://")) for _, name in texts})
    emitter = JSONEmitter(not no_locations, include_provenance, registry, None if compact else 2)
    document = (emitter.emit(checked.program) + "\n").encode()
    if output is None:
        sys.stdout.buffer.write(document)
        return
    try:
        Path(output).write_bytes(document)
    except OSError as error:
        click.echo(f"Error writing output {output}: {error.strerror or error}", err=True)
        ctx.exit(1)


@afl.command("check")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Write the findings to standard output as JSON.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Write the findings to standard output as SARIF 2.1.0, for CI.")
@click.pass_context
def check_command(ctx: click.Context, files: tuple[str, ...], as_json: bool, as_sarif: bool) -> None:
    """Look for mistakes in FILEs, taken together."""
    from afl.compiler import check_texts, collector_paused
    from afl.sarif import sarif_log

    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    ctx.with_resource(collector_paused())
    texts = _read(ctx, files)
    checked = check_texts(texts)
    if as_json:
        findings = [diagnostic.to_json() for diagnostic in checked.diagnostics]
        _write_json({"valid": not checked.has_errors, "diagnostics": findings})
    elif as_sarif:
        _write_json(sarif_log(checked.diagnostics, __version__))
    else:
        _report(checked.diagnostics, texts)
        if not checked.has_errors:
            click.echo(f"OK: {len(texts)} source(s) checked", err=True)
    if checked.has_errors:
        ctx.exit(1)


@afl.command("fmt")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; name the files that would change, and end with 1 if any.")
@click.option("--diff", is_flag=True, help="Change nothing; show what would change.")
@click.pass_context
def fmt_command(ctx: click.Context, files: tuple[str, ...], check: bool, diff: bool) -> None:
    """Bring FILEs into the one layout of the language. Standard input goes to standard output."""
    from afl.formatting import FormatRefused, format_text
    from afl.parser import AFLParser

    failed = stale = False
    for text, source_id in _read(ctx, files):
        name = display_name(source_id)
        try:
            AFLParser().parse(text, source_id=source_id)
            formatted = format_text(text)
        except ParseError as error:
            _report([error.finding()], [(text, source_id)])
            failed = True
            continue
        except FormatRefused as error:
            click.echo(f"Error: {name} {error}", err=True)
            failed = True
            continue
        changed = formatted != text
        stale |= changed
        if diff:
            before, after = text.splitlines(keepends=True), formatted.splitlines(keepends=True)
            lines = difflib.unified_diff(before, after, name, f"{name} (formatted)")
            sys.stdout.buffer.write("".join(lines).encode())
        if check and changed:
            click.echo(f"would change: {name}", err=True)
        if check or diff:
            continue
        if source_id == "<stdin>":
            sys.stdout.buffer.write(formatted.encode())
        elif changed:
            failed |= not _replace(Path(name), formatted)
    if failed or (check and stale):
        ctx.exit(1)


@afl.command("ast")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--no-locations", is_flag=True, help="Leave source locations out of the tree.")
@click.pass_context
def ast_command(ctx: click.Context, files: tuple[str, ...], no_locations: bool) -> None:
    """Show the syntax tree of FILEs, together, as JSON. The syntax has to be right, nothing else."""
    from afl.compiler import check_texts
    from afl.tree_json import tree_json

    texts = _read(ctx, files)
    checked = check_texts(texts, validate=False)
    _report(checked.diagnostics, texts)
    if checked.has_errors:
        ctx.exit(1)
    _write_json(tree_json(checked.program, locations=not no_locations))


@afl.command("doc")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.pass_context
def doc_command(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Write Markdown about the declarations of FILEs, from their doc comments, to standard output."""
    from afl.documentation import markdown

    texts = _read(ctx, files)
    failed = False
    pages: list[str] = []
    for text, source_id in texts:
        try:
            pages.append(markdown(text, source_id))
        except ParseError as error:
            _report([error.finding()], texts)
            failed = True
    if failed:
        ctx.exit(1)
    sys.stdout.buffer.write("\n".join(page for page in pages if page).encode())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for errors in the program or its files, 2 for wrong usage."""
    try:
        result = afl.main(args=None if args is None else list(args), prog_name="afl", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("Aborted", err=True)
        return 1
    except BrokenPipeError:
        # Whoever read the output has had enough. Nothing is left to flush, or Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except AFLError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _read(ctx: click.Context, files: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts with their source ids; says every file that cannot be read, then ends the command."""
    from afl.parser import decode_source, read_source

    texts: list[tuple[str, str]] = []
    unreadable: list[SourceUnreadable] = []
    for file in files or (STDIN,):
        try:
            if file == STDIN:
                texts.append((decode_source(sys.stdin.buffer.read(), "<stdin>"), "<stdin>"))
            else:
                texts.append((read_source(file), f"file://{file}"))
        except SourceUnreadable as error:
            unreadable.append(error)
    for problem in unreadable:
        click.echo(f"Error: {problem}", err=True)
    if unreadable:
        ctx.exit(1)
    return texts


def _replace(path: Path, text: str) -> bool:
    """Give a file a new text, all of it or nothing: a crash while writing must not cost anybody a source file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(text.encode())
        beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path.resolve())
    except OSError as error:
        beside.unlink(missing_ok=True)
        click.echo(f"Error writing {path}: {error.strerror or error}", err=True)
        return False
    return True


def _write_json(document: object) -> None:
    sys.stdout.buffer.write((json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode())


def _report(diagnostics: Sequence[Diagnostic], texts: Sequence[tuple[str, str]]) -> None:
    by_source = {source_id: text for text, source_id in texts}
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    for diagnostic in diagnostics:
        text = by_source.get(diagnostic.source_id or "")
        click.echo(render(diagnostic, text, colour=colour), err=True, color=colour)
