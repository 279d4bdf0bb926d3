"""Clients of both forms do all that a client can do with a deployment on a real broker."""

from __future__ import annotations

import asyncio
from contextlib import closing

from afl_stream.kafka.transport import KafkaTransport
from tests.worlds.clients import TALK, talk_at_once, talk_in_turn
from tests.worlds.world import Deployments


def test_clients_of_both_forms_bring_runs_to_their_ends(deployments: Deployments) -> None:
    deployment = deployments(TALK)
    deployment.processes.evaluator().when_ready()
    with closing(KafkaTransport(deployment.config)) as transport:
        talk_in_turn(deployment.config, transport)
        asyncio.run(talk_at_once(deployment.config, transport))
