"""`afl lsp`: the language server, for editors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

_MISSING = "the language server needs pygls; install the extra: afl-stream[editors]"


@click.command("lsp")
@click.option(
    "--source-path",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Look for namespaces below this folder too, not only in the editor's workspace.",
)
@click.option("--stdio", is_flag=True, help="Accepted for editors that pass it, and always on.")
def lsp_command(source_path: tuple[Path, ...], stdio: bool) -> None:  # noqa: ARG001 - click passes it
    """Speak the Language Server Protocol with an editor, which starts this command itself."""
    try:
        from afl.config import load_config
        from afl.language_server.server import make_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.ClickException(_MISSING) from error
    source_paths = [*source_path, *map(Path, load_config().resolver.source_paths)]
    # The server closes its output when the editor ends it; standard output itself is flushed once more after that.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        make_server(source_paths).start_io(stdout=output)
