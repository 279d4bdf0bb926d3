"""Pollers, runners, tools, Claude and scripts: configs with their defaults, constructors, methods, properties."""

from __future__ import annotations

import time
from typing import Any

import pytest

from afl.runtime import (
    AgentPoller,
    AgentPollerConfig,
    Evaluator,
    MemoryStore,
    RegistryRunner,
    RegistryRunnerConfig,
    RunnerConfig,
    RunnerService,
    registry_runner,
)
from afl.runtime.runner import service
from afl.runtime.runner.service import RESUME_TASK_NAME


@pytest.mark.parametrize("config", [AgentPollerConfig, RegistryRunnerConfig, RunnerConfig])
def test_a_server_without_a_name_has_that_of_its_host(
    config: type[AgentPollerConfig] | type[RegistryRunnerConfig] | type[RunnerConfig],
) -> None:
    assert config().server_name
    assert config(server_name="mine").server_name == "mine"


def test_the_task_that_resumes_a_workflow_has_its_name() -> None:
    assert RESUME_TASK_NAME == "afl:resume"


@pytest.mark.parametrize("module", [registry_runner, service])
def test_runners_tell_the_time_in_ms_since_the_epoch(module: Any) -> None:
    before = time.time_ns() // 1_000_000
    reported = module._current_time_ms()

    assert type(reported) is int
    assert before <= reported <= time.time_ns() // 1_000_000


def test_two_servers_have_two_ids_and_neither_runs_before_it_was_started() -> None:
    store = MemoryStore()
    servers = [made(store, Evaluator(store)) for made in (AgentPoller, AgentPoller, RegistryRunner, RunnerService)]

    assert len({server.server_id for server in servers}) == 4
    assert [server.is_running for server in servers] == [False] * 4
    service = servers[3]
    assert isinstance(service, RunnerService)
    assert service.http_port is None
