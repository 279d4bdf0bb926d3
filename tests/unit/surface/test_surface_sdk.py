"""Pollers, runners, tools, Claude and scripts: configs with their defaults, constructors, methods, properties."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from afl.runtime import (
    AgentPoller,
    AgentPollerConfig,
    ClaudeAgentRunner,
    Evaluator,
    LLMHandler,
    LLMHandlerConfig,
    MemoryStore,
    RegistryRunner,
    RegistryRunnerConfig,
    RunnerConfig,
    RunnerService,
    ToolDefinition,
    ToolRegistry,
    registry_runner,
)
from afl.runtime.runner import service
from afl.runtime.runner.service import RESUME_TASK_NAME
from afl.runtime.script_executor import ScriptError, ScriptExecutor, ScriptResult, execute_script
from tests.unit.surface.shapes import assert_fields, assert_takes

POLLING = "server_group='default', server_name=SOME, task_list='default', poll_interval_ms=2000, max_concurrent=5, "
FIELDS: list[tuple[type, str]] = [
    (AgentPollerConfig, f"service_name='afl-agent', {POLLING} heartbeat_interval_ms=10000"),
    (
        RegistryRunnerConfig,
        f"service_name='afl-registry-runner', {POLLING} heartbeat_interval_ms=10000, "
        "registry_refresh_interval_ms=30000, topics=[]",
    ),
    (
        RunnerConfig,
        "server_group='default', service_name='afl-runner', server_name=SOME, topics=[], task_list='default', "
        "poll_interval_ms=2000, heartbeat_interval_ms=10000, lock_duration_ms=60000, lock_extend_interval_ms=20000, "
        "max_concurrent=5, shutdown_timeout_ms=30000, http_port=8080, http_max_port_attempts=20",
    ),
    (ToolDefinition, "name, description, input_schema, param_names, return_names, prompt_block=None"),
    (LLMHandlerConfig, "model=SOME, system_prompt=SOME, max_tokens=4096, max_turns=10, max_retries=2"),
    (ScriptResult, "success, result={}, error=None"),
]
SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (AgentPoller, "persistence, evaluator, config=None"),
    (AgentPoller.register, "facet_name, callback"),
    (AgentPoller.register_async, "facet_name, callback"),
    (AgentPoller.registered_names, ""),
    (AgentPoller.poll_once, ""),
    (AgentPoller.start, ""),
    (AgentPoller.stop, ""),
    (AgentPoller.cache_workflow_ast, "workflow_id, ast, program_ast=None"),
    (AgentPoller.update_step, "step_id, partial_result"),
    (RegistryRunner, "persistence, evaluator, config=None"),
    (
        RegistryRunner.register_handler,
        "facet_name, module_uri, entrypoint='handle', version='1.0.0', checksum='', timeout_ms=30000, "
        "requirements=None, metadata=None",
    ),
    (RegistryRunner.registered_names, ""),
    (RegistryRunner.poll_once, ""),
    (RegistryRunner.start, ""),
    (RegistryRunner.stop, ""),
    (RegistryRunner.cache_workflow_ast, "workflow_id, ast, program_ast=None"),
    (RegistryRunner.update_step, "step_id, partial_result"),
    (RunnerService, "persistence, evaluator, config=SOME, tool_registry=SOME"),
    (RunnerService.start, ""),
    (RunnerService.stop, ""),
    (RunnerService.run_once, ""),
    (RunnerService.cache_workflow_ast, "workflow_id, ast"),
    (ToolRegistry, ""),
    (ToolRegistry.register, "event_type, handler"),
    (ToolRegistry.set_default_handler, "handler"),
    (ToolRegistry.has_handler, "event_type"),
    (ToolRegistry.handle, "event_type, payload"),
    (
        ClaudeAgentRunner,
        "evaluator, persistence, *, anthropic_client=None, model=SOME, system_prompt=None, tool_registry=None, "
        "max_dispatches=100, max_turns=10, max_retries=2",
    ),
    (ClaudeAgentRunner.run, "workflow_ast, inputs=None, program_ast=None, *, task_description=None"),
    (
        LLMHandler,
        "anthropic_client, config=None, *, tool_definitions=None, tool_registry=None, prompt_template=None",
    ),
    (LLMHandler.handle, "payload"),
    (LLMHandler.handle_async, "payload"),
    (ScriptError, "message, original=None"),
    (ScriptExecutor, "timeout=30.0"),
    (ScriptExecutor.execute, "code, params=None, language='python'"),
    (execute_script, "code, params=None, language='python'"),
]


@pytest.mark.parametrize(("cls", "fields"), FIELDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_config_has_its_fields_and_defaults(cls: type, fields: str) -> None:
    assert_fields(cls, fields)


@pytest.mark.parametrize(("function", "takes"), SIGNATURES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_a_function_takes_its_parameters(function: Callable[..., Any], takes: str) -> None:
    assert_takes(function, takes)


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
    told = module._current_time_ms()

    assert type(told) is int
    assert before <= told <= time.time_ns() // 1_000_000


def test_two_servers_have_two_ids_and_neither_runs_before_it_was_started() -> None:
    store = MemoryStore()
    servers = [made(store, Evaluator(store)) for made in (AgentPoller, AgentPoller, RegistryRunner, RunnerService)]

    assert len({server.server_id for server in servers}) == 4
    assert [server.is_running for server in servers] == [False] * 4
    service = servers[3]
    assert isinstance(service, RunnerService)
    assert service.http_port is None
