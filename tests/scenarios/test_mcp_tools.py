"""The tools of `afl-stream mcp`, through the SDK's client in memory: whole sessions, bounds, and what is hidden."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from tests.scenarios.command_lines import CommandLine
from tests.scenarios.mcp_calls import Session, in_memory

SHOP: Final = """namespace shop {
    event facet Charge(amount: Long) => (receipt: String)
    workflow Checkout(amount: Long) => (receipt: String) andThen {
        paid = Charge(amount = $.amount)
        yield Checkout(receipt = paid.receipt)
    }
}
"""
BROKEN: Final = SHOP.replace("$.amount", "$.amout")
#: A value of 60,000 characters, which no result holds as a whole.
LONG: Final = "0123456789" * 6_000
SECRETS: Final = """
/** @sensitive card */
event facet Charge(card: String) => (receipt: String)
/** @sensitive card */
workflow Checkout(card: String) => (receipt: String) andThen {
    paid = Charge(card = $.card)
    yield Checkout(receipt = paid.receipt)
}
"""
CARD: Final = "4111-1111-1111-1111"
WRITING: Final = {
    "afl_execute_workflow",
    "afl_continue_step",
    "afl_resume_workflow",
    "afl_raise",
    "afl_manage_dlq",
    "afl_migrate_workflow",
}


# --- a whole session --------------------------------------------------------------------------------------------


def test_a_text_is_mended_compiled_started_answered_and_its_outputs_are_read(tmp_path: Path) -> None:
    async def session(mcp: Session) -> None:
        found = await mcp.call("afl_validate", source=BROKEN, filename="shop.afl")
        assert (found["ok"], found["errors"]) == (False, 1)
        (finding,) = found["findings"]
        assert (finding["file"], finding["line"], finding["severity"]) == ("shop.afl", 4, "error")
        assert BROKEN.splitlines()[3][finding["column"] - 1 :].startswith("$.amout")
        assert "amount" in finding["message"] + finding.get("help", "")
        refused = await mcp.refusal("afl_execute_workflow", source=BROKEN, inputs={"amount": 3})
        assert "workflow.afl:4:" in refused
        assert "nothing was started" in refused

        compiled = await mcp.call("afl_compile", source=SHOP)
        assert "workflow shop.Checkout(amount: Long) => (receipt: String)" in [
            declared["signature"] for declared in compiled["declarations"]
        ]
        run = await mcp.call("afl_execute_workflow", source=SHOP, inputs={"amount": 3}, run_id="order-17")
        assert (run["status"], run["program"], run["existed"]) == ("WAITING", compiled["program"], False)
        (step,) = run["waiting"]
        assert (step["facet"], step["payload"], step["returns"]) == ("shop.Charge", {"amount": 3}, "(receipt: String)")
        why = await mcp.call("afl_why", run_id="order-17")
        assert [wait["facet"] for wait in why["waits"]] == ["shop.Charge"]
        assert why["waits"][0]["source"] == "paid = Charge(amount = $.amount)"

        wrong = await mcp.refusal("afl_continue_step", step_id=step["step_id"], result={"receipt": 5})
        assert "receipt: a String was expected" in wrong
        ended = await mcp.call("afl_continue_step", step_id=step["step_id"], result={"receipt": "r-1"})
        assert (ended["status"], ended["outputs"]) == ("COMPLETED", {"receipt": "r-1"})
        again = await mcp.refusal("afl_continue_step", step_id=step["step_id"], result={"receipt": "r-2"})
        assert "has ended" in again
        shown = await mcp.call("afl_show", run_id="order-17")
        assert [(one["label"], one["results"]) for one in shown["steps"]] == [("paid = Charge", {"receipt": "r-1"})]
        assert json.loads(await mcp.read("afl://runs/order-17"))["outputs"] == {"receipt": "r-1"}
        assert SHOP in await mcp.read(f"afl://programs/{run['program']}/source")
        kinds = [entry["kind"] for entry in json.loads(await mcp.read("afl://runs/order-17/logs"))["entries"]]
        assert kinds == ["WorkflowStarted", "StepCreated", "WorkflowEnded"]

    in_memory(tmp_path, session)


def test_a_run_is_failed_by_hand_retried_paused_and_cancelled(tmp_path: Path) -> None:
    async def session(mcp: Session) -> None:
        run = await mcp.call("afl_execute_workflow", source=SHOP, inputs={"amount": 3}, run_id="w1")
        step_id = run["waiting"][0]["step_id"]
        assert "either `result`" in await mcp.refusal("afl_continue_step", step_id=step_id)
        failure = {"type": "CardDeclined", "message": "no money"}
        failed = await mcp.call("afl_continue_step", step_id=step_id, failure=failure)
        assert failed["status"] == "ERROR"
        assert failed["error"] == {**failure, "path": "shop.Checkout.paid"}
        listed = await mcp.call("afl_list", state=["failed"], inputs={"amount": 3}, error="no money")
        assert [one["run_id"] for one in listed["runs"]] == ["w1"]

        retried = await mcp.call("afl_manage_runner", action="retry", runner_id="w1")
        assert retried["run"]["waiting"][0]["attempt"] == 2
        assert (await mcp.call("afl_manage_runner", action="pause", runner_id="w1"))["changed"]
        assert not (await mcp.call("afl_manage_runner", action="pause", runner_id="w1"))["changed"]
        codes = [cause["code"] for cause in (await mcp.call("afl_why", run_id="w1"))["causes"]]
        assert "workflow-paused" in codes
        assert (await mcp.call("afl_resume_workflow", run_id="w1"))["status"] == "WAITING"
        cancelled = await mcp.call("afl_manage_runner", action="cancel", runner_id="w1", reason="enough")
        assert cancelled["run"]["status"] == "CANCELLED"

    in_memory(tmp_path, session)


def test_a_step_takes_an_event_that_was_raised(tmp_path: Path) -> None:
    program = (
        "workflow Wait() => (by: Json) andThen {\n"
        '    got = afl.WaitForEvent(name = "approval")\n'
        "    yield Wait(by = got.data)\n}\n"
    )

    async def session(mcp: Session) -> None:
        run = await mcp.call("afl_execute_workflow", source=program, run_id="w1")
        assert run["waiting"][0]["event_name"] == "approval"
        assert "afl_raise" in run["next"]
        raised = await mcp.call("afl_raise", run_id="w1", name="approval", data={"by": "ann"}, event_id="a-1")
        assert (raised["run"]["status"], raised["run"]["outputs"]) == ("COMPLETED", {"by": {"by": "ann"}})

    in_memory(tmp_path, session)


def test_a_waiting_run_moves_to_another_version_and_starts_say_what_they_do_with_its_id(tmp_path: Path) -> None:
    program = (
        "workflow Wait() => (by: Json) andThen {\n"
        '    got = afl.WaitForEvent(name = "approval")\n'
        "    yield Wait(by = got.data)\n}\n"
    )

    async def session(mcp: Session) -> None:
        first = await mcp.call("afl_execute_workflow", source=program, run_id="w1")
        following = await mcp.call(
            "afl_execute_workflow", source=program.replace("got.data", "[got.data]"), run_id="w2"
        )
        renamed = await mcp.call("afl_execute_workflow", source=program.replace("got", "had"), run_id="w3")

        start = {"workflow": "Wait", "run_id": "w1"}
        assert "is not the one asked for" in await mcp.refusal("afl_execute_workflow", **start)
        assert "if-exists is refuse" in await mcp.refusal("afl_execute_workflow", **start, if_exists="refuse")
        assert (await mcp.call("afl_execute_workflow", **start, if_exists="use"))["existed"]

        misfit = await mcp.refusal("afl_migrate_workflow", run_id="w1", to=renamed["program"])
        assert "does not fit version" in misfit
        assert "got" in misfit
        assert "there is no version" in await mcp.refusal("afl_migrate_workflow", run_id="w1", to="0123456789")
        moved = await mcp.call("afl_migrate_workflow", run_id="w1", to=following["program"][:12], reason="a list")
        assert moved["program"] == following["program"] != first["program"]
        raised = await mcp.call("afl_raise", run_id="w1", name="approval", data="ann")
        assert raised["run"]["outputs"] == {"by": ["ann"]}

    in_memory(tmp_path, session)


def test_handlers_are_registered_listed_and_removed(tmp_path: Path) -> None:
    async def session(mcp: Session) -> None:
        put = {"facet_name": "shop.Charge", "module_uri": "shop.handlers", "entrypoint": "charge"}
        await mcp.call("afl_manage_handlers", action="register", **put, metadata={"region": "eu"}, timeout_ms=5_000)
        (found,) = (await mcp.call("afl_manage_handlers", action="list"))["handlers"]
        assert {name: found[name] for name in put} == put
        assert (found["metadata"], found["timeout_ms"]) == ({"region": "eu"}, 5_000)
        assert json.loads(await mcp.read("afl://handlers/shop.Charge"))["entrypoint"] == "charge"
        near = await mcp.refusal("afl_manage_handlers", action="get", facet_name="shop.Charg")
        assert "did you mean shop.Charge?" in near
        await mcp.call("afl_manage_handlers", action="remove", facet_name="shop.Charge")
        assert (await mcp.call("afl_manage_handlers", action="list"))["handlers"] == []

    in_memory(tmp_path, session)


def test_dead_letters_are_listed_shown_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(tmp_path, capsys).deployed()
    assert line("cancel", "w9").code == 0
    assert line("evaluator", "--until-idle").code == 0

    async def session(mcp: Session) -> None:
        (letter,) = (await mcp.call("afl_dlq"))["letters"]
        assert (letter["reason"], letter["run_id"]) == ("NothingToCancel", "w9")
        shown = await mcp.call("afl_dlq", place=letter["place"])
        assert shown["record"]["workflow_id"] == "w9"
        dropped = await mcp.call("afl_manage_dlq", action="drop", places=[letter["place"]], reason="a mistake")
        assert dropped["done"] == [letter["place"]]
        assert (await mcp.call("afl_dlq"))["letters"] == []
        assert (await mcp.call("afl_dlq", handled=True))["letters"][0]["dropped"]

    in_memory(line.data_dir, session)


# --- what is offered, hidden and cut ----------------------------------------------------------------------------


def test_without_write_every_tool_only_reads(tmp_path: Path) -> None:
    async def reading(mcp: Session) -> dict[str, Any]:
        assert not WRITING & mcp.tools.keys()
        refused = await mcp.refusal("afl_execute_workflow", source=SHOP)
        assert "there is no tool afl_execute_workflow" in refused
        assert "--write" in refused
        assert "action" in await mcp.refusal("afl_manage_runner", action="cancel", runner_id="w1")
        assert "action" in await mcp.refusal("afl_manage_handlers", action="register", facet_name="a.B")
        return {name: tool.annotations for name, tool in mcp.tools.items()}

    async def writing(mcp: Session) -> dict[str, Any]:
        return {name: tool.annotations for name, tool in mcp.tools.items()}

    only_read, both = in_memory(tmp_path, reading, may_write=False), in_memory(tmp_path, writing)

    assert all(annotations.read_only_hint and not annotations.destructive_hint for annotations in only_read.values())
    assert both.keys() == only_read.keys() | WRITING
    changing = {*WRITING, "afl_manage_runner", "afl_manage_handlers"}
    assert {name for name, annotations in both.items() if not annotations.read_only_hint} == changing
    assert not list(tmp_path.iterdir())


def test_a_long_value_is_cut_and_read_page_by_page(tmp_path: Path) -> None:
    program = "workflow Echo(text: String) => (text: String) andThen { yield Echo(text = $.text) }"

    async def session(mcp: Session) -> None:
        run = await mcp.call("afl_execute_workflow", source=program, inputs={"text": LONG}, run_id="w1")
        cut = run["outputs"]["text"]
        assert (cut["cut"], cut["chars"]) == (True, len(LONG) + 2)
        uri = cut["read_all"].removeprefix('afl_read(uri="').removesuffix('")')
        text = ""
        offset: int | None = 0
        while offset is not None:
            page = await mcp.call("afl_read", uri=uri, offset=offset)
            text, offset = text + page["text"], page.get("next_offset")
        assert json.loads(text) == LONG
        assert len(await mcp.read(uri)) < len(LONG)

    in_memory(tmp_path, session)


def test_runs_and_steps_come_in_pages(tmp_path: Path) -> None:
    program = """
    event facet Ping(n: Int) => ()
    workflow Many(ns: [Int]) => () andThen foreach n in $.ns { p = Ping(n = $.n) }
    """

    async def session(mcp: Session) -> None:
        for run in ("w1", "w2"):
            await mcp.call("afl_execute_workflow", source=program, inputs={"ns": list(range(5))}, run_id=run)
        first = await mcp.call("afl_list", limit=1)
        second = await mcp.call("afl_list", limit=1, after=first["next_after"])
        assert [page["runs"][0]["run_id"] for page in (first, second)] == ["w2", "w1"]
        assert "next_after" not in second
        shown = await mcp.call("afl_show", run_id="w1", limit=3)
        rest = await mcp.call("afl_show", run_id="w1", limit=3, offset=shown["next_offset"])
        assert [step["inputs"]["n"] for step in (*shown["steps"], *rest["steps"])] == list(range(5))
        assert (rest["steps_total"], "next_offset" in rest) == (5, False)

    in_memory(tmp_path, session)


def test_sensitive_values_and_secrets_are_hidden_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_ANSWERS_TOKEN_SECRET", token := "a token secret that is long enough")

    async def session(mcp: Session) -> list[str]:
        run = await mcp.call("afl_execute_workflow", source=SECRETS, inputs={"card": CARD}, run_id="w1")
        step_id = run["waiting"][0]["step_id"]
        seen: list[object] = [run, await mcp.call("afl_show", run_id="w1"), await mcp.call("afl_why", run_id="w1")]
        seen.append(await mcp.refusal("afl_show", run_id=f"{token} {token}"))
        for path in ("", "/steps", "/logs", f"/steps/{step_id}", "/values/-/inputs/card"):
            seen.append(await mcp.read(f"afl://runs/w1{path}"))
        return [str(one) for one in seen]

    seen = in_memory(tmp_path, session)

    assert not [text for text in seen if CARD in text or token in text]
    assert "[sensitive]" in seen[0]


# --- mistakes of callers ----------------------------------------------------------------------------------------


def test_bad_arguments_are_answered_with_what_would_be_right(tmp_path: Path) -> None:
    async def session(mcp: Session) -> None:
        assert "did you mean state?" in await mcp.refusal("afl_list", stat="failed")
        assert "limit: Input should be less than or equal to 100, found 5000" in await mcp.refusal(
            "afl_list", limit=5_000
        )
        assert "source is missing" in await mcp.refusal("afl_validate")
        assert "afl_execute_workflow with a `source`" in await mcp.refusal("afl_list")
        await mcp.call("afl_execute_workflow", source=SHOP, inputs='{"amount": 3}', run_id="w1")
        lacking = await mcp.refusal("afl_execute_workflow", workflow="Checkout", inputs={"amoun": 3})
        assert "amoun" in lacking
        assert "amount: Long" in lacking
        taken = await mcp.refusal("afl_execute_workflow", workflow="Checkout", inputs={"amount": 4}, run_id="w1")
        assert "w1" in taken
        same = await mcp.call("afl_execute_workflow", workflow="Checkout", inputs={"amount": 3}, run_id="w1")
        assert (same["existed"], same["status"]) == (True, "WAITING")
        with pytest.raises(MCPError, match="afl://runs"):
            await mcp.read("afl://nothing")

    in_memory(tmp_path, session)


_ODD: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["w1", "w1:0", "../../etc/passwd", "afl://runs/%00/logs", "\x00", "2h", "a" * 5_000, "[" * 500]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_odd_arguments_are_answered_and_never_end_the_server(data: st.DataObject) -> None:
    async def session(mcp: Session) -> None:
        for name in data.draw(st.lists(st.sampled_from(sorted(mcp.tools)), min_size=4, max_size=6, unique=True)):
            tool = mcp.tools[name]
            properties = sorted(tool.input_schema["properties"])
            names = data.draw(st.lists(st.sampled_from([*properties, "other"]), max_size=4, unique=True))
            arguments = {each: data.draw(_ODD) for each in names if each != "wait_s"}
            result = await mcp.client.call_tool(name, arguments)
            assert "mistake of afl-stream" not in str(result.content), (name, arguments)
        uri = data.draw(st.text(max_size=30).map(lambda text: f"afl://runs/{text}"))
        with pytest.raises(MCPError):
            await mcp.read(uri)
        assert (await mcp.call("afl_validate", source=SHOP))["ok"]

    with tempfile.TemporaryDirectory() as folder:
        in_memory(Path(folder), session)
