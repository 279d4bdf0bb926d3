"""`python -m tools.registry up|down`: a schema registry for a person's own trials, that stays until it is stopped."""

from pathlib import Path

import click

from afl.core.process.signals import signals_handled
from afl_stream.broker.errors import LocalBrokerError
from afl_stream.broker.jars import cache_root
from afl_stream.broker.ports import is_free
from tools.registry.server import RegistryServer

#: Where clients look for a registry when told nothing.
_USUAL_PORT = 8081

_folder = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: cache_root() / "registry-up",
    help="Where its data and log are.  [default: a folder of the user's cache]",
)


@click.group()
def main() -> None:
    """Run a schema registry on this machine, without Docker."""


@main.command()
@_folder
def up(folder: Path) -> None:
    """Start it, or say where it is when it runs already. Data of an earlier time is used again."""
    try:
        server = RegistryServer.attach(folder.resolve())
        if server is None:
            click.echo("Starting Apicurio Registry (the first time, it is fetched: 158 MB)")
            port = _USUAL_PORT if is_free(_USUAL_PORT) else None
            server = RegistryServer.start(folder.resolve(), port=port)
    except (LocalBrokerError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"The registry is at {server.url}: process {server.pid}")
    click.echo(f"Use it:  export AFL_REGISTRY_URL={server.url}")
    click.echo("Stop it: python -m tools.registry down")


@main.command()
@_folder
def down(folder: Path) -> None:
    """Stop it; its data stays."""
    server = RegistryServer.attach(folder.resolve())
    if server is None:
        raise click.ClickException(f"no registry of {folder} is running")
    server.stop()
    click.echo(f"Stopped: process {server.pid}")


if __name__ == "__main__":
    # A start that is interrupted takes along what it has started.
    with signals_handled():
        main(prog_name="python -m tools.registry")
