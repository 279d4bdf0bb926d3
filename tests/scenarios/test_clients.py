"""Clients of both forms do all that a client can do with a deployment in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl_stream.dev import LocalDeployment
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.settings.config import EmbeddedSettings, StreamConfig, TopicSettings
from tests.worlds.clients import TALK, talk_at_once, talk_in_turn
from tests.worlds.deployment import program_of


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalDeployment]:
    config = StreamConfig(
        embedded=EmbeddedSettings(data_dir=str(tmp_path)),
        topics=TopicSettings(control_partitions=2, event_partitions=2, replication=1),
    )
    with LocalDeployment(config) as deployment:
        deployment.deploy(program_of(TALK))
        deployment.run()
        yield deployment


def test_a_client_starts_answers_and_waits(local: LocalDeployment) -> None:
    with closing(EmbeddedTransport(local.broker)) as transport:
        talk_in_turn(local.config, transport)


def test_an_asynchronous_client_does_so_for_many_runs_at_once(local: LocalDeployment) -> None:
    with closing(EmbeddedTransport(local.broker)) as transport:
        asyncio.run(talk_at_once(local.config, transport))
