"""Codecs on a schema registry, each as of a process of its own, and Confluent's client of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient

from afl_stream.broker.errors import NotInstalled
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.registry import RegistrySettings
from afl_stream.topics.declared import Topology
from afl_stream.wire.codec import Codec
from tests.worlds.requirements import missing
from tools.registry import RegistryServer


class RegistryParties(ExitStack):
    """Makes codecs and clients, which are closed at the end."""

    def codec(self, url: str, **settings: Any) -> Codec:
        """Return a codec that knows no schema yet; unless told otherwise it registers what is not there."""
        given = {"auto_register": "on", "timeout_s": 5, **settings}
        config = replace(StreamConfig(), registry=RegistrySettings(url=url, **given))
        transport = EmbeddedTransport()
        self.callback(transport.close)
        made = DeploymentCodec(config, transport, Topology(config))
        self.callback(made.close)
        return made.codec

    def client(self, url: str) -> SchemaRegistryClient:
        """Return Confluent's client, which asks again where an answer does not come."""
        client = SchemaRegistryClient({"url": url, "timeout": 10})
        self.callback(client.close)
        return client


def started_registry(folder: Path) -> RegistryServer:
    """Start a registry that dies with the tests. Skips, or in CI fails, where it cannot be had."""
    try:
        return RegistryServer.start(folder.resolve(), guardian_pid=os.getpid())
    except NotInstalled as error:
        missing(f"no schema registry: {error}")
