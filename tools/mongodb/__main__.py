"""`python -m tools.mongodb up|down`: a MongoDB server for a person's own trials, that stays until it is stopped."""

import shlex
from pathlib import Path

import click

from afl.core.process.signals import signals_handled
from tools.mongodb.server import NotInstalled, Server, ServerDidNotStart, cache_folder

_folder = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=cache_folder,
    help="Where its data and log are.  [default: a folder of the user's cache]",
)


@click.group()
def main() -> None:
    """Run a MongoDB server on this machine, without Docker."""


@main.command()
@_folder
def up(folder: Path) -> None:
    """Start it, or say where it is when it runs already. Data of an earlier time is used again."""
    try:
        server = Server.attach(folder) or Server.start(folder)
    except (NotInstalled, ServerDidNotStart, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"MongoDB is at {server.url}: process {server.pid}")
    click.echo(f"Use it:  export AFL_MONGODB_URL={server.url}")
    option = "" if folder == cache_folder() else f" --dir {shlex.quote(str(folder))}"
    click.echo(f"Stop it: python -m tools.mongodb down{option}")


@main.command()
@_folder
def down(folder: Path) -> None:
    """Stop it; its data stays."""
    server = Server.attach(folder)
    if server is None:
        raise click.ClickException(f"no server of {folder} is running")
    server.stop()
    click.echo(f"Stopped: process {server.pid}")


if __name__ == "__main__":
    # A start that is interrupted takes along what it has started.
    with signals_handled():
        main(prog_name="python -m tools.mongodb")
