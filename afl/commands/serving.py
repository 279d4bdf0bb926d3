"""`afl lsp`: the language server, for editors."""

from __future__ import annotations

from pathlib import Path

import click

_MISSING = "the language server needs pygls; install the extra: afl-stream[editors]"


@click.command("lsp", short_help="Serve an editor: the language server, on standard input and output.")
@click.option(
    "--source-path",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Look for namespaces below this folder too, not only in the editor's workspace.",
)
@click.option("--stdio", is_flag=True, help="Accepted for editors that say it; there is no other way.")
def lsp_command(source_path: tuple[Path, ...], stdio: bool) -> None:
    """Speak the Language Server Protocol with an editor, which starts this command itself."""
    try:
        from afl.language_server.server import make_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.ClickException(_MISSING) from error
    make_server(source_path).start_io()
