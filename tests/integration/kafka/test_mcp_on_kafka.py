"""The tools of language models on a real broker, beside an evaluator that is another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.scenarios.mcp_calls import Session, in_memory
from tests.scenarios.test_mcp_tools import SHOP
from tests.worlds.processes import Processes


@pytest.fixture
def command_line(
    tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> KafkaCommandLine:
    made = kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_session_on_kafka_starts_answers_and_explains_a_run(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    run.evaluator()

    async def with_the_store(mcp: Session) -> None:
        started = await mcp.call(
            "afl_execute_workflow", source=SHOP, inputs={"amount": 3}, run_id="order-17", wait_s=60
        )
        assert (started["status"], len(started["waiting"])) == ("WAITING", 1)
        why = await mcp.call("afl_why", run_id="order-17")
        assert [cause["code"] for cause in why["waits"][0]["causes"]] == ["no-agent"]
        early = await mcp.call("afl_raise", run_id="order-17", name="news", data=1, wait_s=0)
        assert early["outcome"] == "queued"
        assert (await mcp.call("afl_manage_runner", action="pause", runner_id="order-17"))["changed"]
        assert (await mcp.call("afl_resume_workflow", run_id="order-17"))["status"] == "WAITING"

    async def without_it(mcp: Session) -> None:
        state = await mcp.call("afl_resume_workflow", run_id="order-17")
        assert (state["status"], state["waiting_total"]) == ("WAITING", 1)
        step_id = state["waiting"][0]["step_id"]
        await mcp.call("afl_continue_step", step_id=step_id, result={"receipt": "r-1"}, wait_s=30)
        refused = await mcp.refusal(
            "afl_execute_workflow", workflow="Checkout", inputs={"amount": 9}, run_id="order-17"
        )
        assert "order-17" in refused
        letters = await mcp.call("afl_dlq", run_id="order-17")
        assert [letter["reason"] for letter in letters["letters"]] == ["AlreadyExists"]

    async def the_end(mcp: Session) -> None:
        ended = await mcp.call("afl_manage_runner", action="get", runner_id="order-17")
        assert (ended["run"]["status"], ended["run"]["outputs"]) == ("COMPLETED", {"receipt": "r-1"})

    in_memory(run.folder / ".afl", with_the_store)
    in_memory(run.folder / "elsewhere", without_it)
    in_memory(run.folder / ".afl", the_end)
