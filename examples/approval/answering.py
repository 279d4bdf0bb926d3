"""The form on a deployment of its own processes: `python -m examples.approval.answering`, with the usual settings."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import TextIO

from afl_stream.client import Client
from afl_stream.config import load_config
from afl_stream.errors import StreamError
from afl_stream.kafka import KafkaTransport
from afl_stream.transport import TransportError
from examples.approval.form import Answer, FormServer

EVENT = "approval"
PORT = 8765


class NoCluster(StreamError):
    """The settings name no Kafka cluster."""


def answer_by(client: Client) -> Answer:
    """Return what raises the event of an answer."""

    def answer(request: str, data: Mapping[str, object], event_id: str) -> None:
        client.raise_event(request, EVENT, data, id=event_id)

    return answer


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Serve the form until Ctrl-C. Ends the process with 3, and says why, when it cannot be served."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.approval.answering", description="the web form of the approval, on a Kafka deployment"
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"of the form, on this machine (default: {PORT})")
    given = parser.parse_args(arguments)
    try:
        _serve(given.port, out)
    except (StreamError, TransportError) as error:
        parser.exit(3, f"Error: {error}\n")


def _serve(port: int, out: TextIO) -> None:
    config = load_config()
    if not config.is_kafka:
        raise NoCluster("there is no cluster to write to: name it by AFL_KAFKA_BOOTSTRAP=HOST:PORT")
    with (
        closing(KafkaTransport(config)) as transport,
        Client(config, transport) as client,
        FormServer(answer_by(client), port) as form,
    ):
        out.write(f"Answer at {form.url}\n")
        out.flush()
        with suppress(KeyboardInterrupt):
            form.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
