"""`python -m tools.kafka up|down|status`: a Kafka for a person's own trials, that stays until it is stopped."""

import shutil
from pathlib import Path

import click

from afl.core.process.signals import signals_handled
from afl_stream.broker.errors import LocalBrokerError
from afl_stream.broker.jars import cache_root, locked
from afl_stream.broker.ports import is_free
from afl_stream.broker.ready import answering_cluster
from tools.kafka.cluster import Cluster, broker_folders

#: Where clients look for Kafka when told nothing.
_USUAL_PORT = 9092


def _default_directory() -> Path:
    # Outside the tree: `make clean` must not take the data from under a broker that runs.
    return cache_root() / "kafka-up"


_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=_default_directory,
    help="Where its data, settings and logs are.  [default: a folder of the user's cache]",
)


@click.group()
def main() -> None:
    """Run a real Apache Kafka on this machine, without Docker."""


@main.command()
@_directory
@click.option("--brokers", type=click.IntRange(1, 9), default=1, show_default=True, help="How many, for a new one.")
def up(directory: Path, brokers: int) -> None:
    """Start it, or say where it is when it runs already. Data of an earlier time is used again."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with locked(directory / "lock"):
            cluster = _open(directory, brokers)
    except (LocalBrokerError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if len(cluster.brokers) != brokers:
        click.echo(
            f"(It was made with {len(cluster.brokers)} brokers before; `down --delete` first for another number.)"
        )
    _print_address(cluster)
    click.echo(f"Use it:  export AFL_KAFKA_BOOTSTRAP={cluster.bootstrap}")
    option = "" if directory == _default_directory() else f" --dir {directory}"
    click.echo(f"Stop it: python -m tools.kafka down{option}  (its data stays in {directory})")


@main.command()
@_directory
@click.option("--delete", is_flag=True, help="Delete its data too.")
def down(directory: Path, delete: bool) -> None:
    """Stop it."""
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / "lock"):
        cluster = Cluster.attach(directory)
        cluster.stop()
        if delete:
            for folder in broker_folders(directory):
                shutil.rmtree(folder)
    pids = ", ".join(str(broker.pid) for broker in cluster.brokers)
    click.echo(f"Stopped: process {pids}" if pids else f"No broker of {directory} was running")


@main.command()
@_directory
def status(directory: Path) -> None:
    """Tell whether it runs and answers; the exit code is 1 when it does not."""
    cluster = Cluster.attach(directory)
    if not cluster.brokers:
        raise click.ClickException(f"no broker of {directory} is running")
    for broker in cluster.brokers:
        found = answering_cluster(broker.settings.port)
        if found != broker.cluster_id:
            what = "does not answer" if found is None else f"answers as cluster {found}, not {broker.cluster_id}"
            raise click.ClickException(f"the broker at {broker.bootstrap} (process {broker.pid}) {what}")
    _print_address(cluster)


def _open(directory: Path, brokers: int) -> Cluster:
    if broker_folders(directory):
        return Cluster.open(directory)
    click.echo("Starting Kafka (the first time, its jars are fetched)")
    port = _USUAL_PORT if is_free(_USUAL_PORT) else None
    return Cluster.start(directory, brokers, heap_mb=512, port=port, guardian_pid=None)


def _print_address(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        click.echo(f"Kafka is at {broker.bootstrap}: process {broker.pid}, cluster {broker.cluster_id}")
        click.echo(f"  log {broker.log_path}")


if __name__ == "__main__":
    # A start that is interrupted takes along what it has started.
    with signals_handled():
        main(prog_name="python -m tools.kafka")
