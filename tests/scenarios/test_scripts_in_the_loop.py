"""Scripts of the control loop's workflows: they run beside it, the loop waits for none, and they need to be allowed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace

import pytest

from afl.engine.model.store import COMPLETED, ERROR, PAUSED, RUNNING
from afl.engine.states import StepState
from afl.scripts.errors import ScriptWorkerUnavailable
from afl.scripts.pool import ScriptPool, ScriptResult
from afl_stream.agent.agent import HandlerContext
from afl_stream.errors import ConfigError
from afl_stream.evaluator.service import open_script_pool
from afl_stream.settings.config import EvaluatorSettings, ScriptSettings
from afl_stream.wire.messages import CancelWorkflow
from tests.eventually import eventually
from tests.record_headers import headers_of
from tests.worlds.delivery_checks import assert_delivered
from tests.worlds.press import HANDLERS, ITEMS, PRESS, Presses, start_catalogue, start_leaflet
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: The end of a script is put where the test wants it, which a broker of its own pace does not allow.
WORLDS = EMBEDDED


@pytest.fixture(scope="module")
def pool() -> Iterator[ScriptPool]:
    with ScriptPool(workers=2) as pool:
        yield pool


def test_scripts_run_in_worker_processes_and_their_workflow_completes(world: World, pool: ScriptPool) -> None:
    deployment = world.deployment(PRESS, scripts=pool)
    evaluator = deployment.evaluator()
    deployment.worker(HANDLERS)
    start_catalogue(deployment)

    def has_ended() -> bool:
        deployment.round()
        row = deployment.store.load_workflow("wf-1")
        return row is not None and row.status == COMPLETED and evaluator.is_idle

    eventually(has_ended, 30)

    assert deployment.workflow("wf-1").outputs == {
        "texts": ["TEA", "SUGAR"],
        "pages": [3, 5],
        "title": "all of 2",
        "opened": "opened",
    }
    deployment.crash()


def test_a_step_that_waits_for_its_script_is_stored_in_its_state_and_its_workflow_as_runnable(world: World) -> None:
    deployment = world.deployment(PRESS, scripts=Presses(holds=True))
    evaluator = deployment.evaluator()
    start_catalogue(deployment)
    deployment.round()

    (root,) = deployment.steps("wf-1")
    assert root.state == StepState.FACET_SCRIPTS_BEGIN
    assert (deployment.workflow("wf-1").status, deployment.workflow("wf-1").runnable) == (RUNNING, True)
    assert evaluator.stats.scripts == 1
    assert not evaluator.is_idle


def test_a_slow_script_holds_up_no_other_workflow_nor_the_events_of_its_own(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    deployment.evaluator()
    deployment.worker(HANDLERS)
    start_catalogue(deployment)
    start_leaflet(deployment, "quick")
    for _ in range(8):
        deployment.round()

    assert deployment.workflow("quick").status == COMPLETED
    assert deployment.workflow("wf-1").status == RUNNING

    presses.end_first()
    for _ in range(4):
        deployment.round()
    assert [value for value, _ in presses.lying] == ["title 1", "text 1", "text 1"]
    while presses.lying[0][0] != "text 1":
        presses.lying.rotate(-1)
    presses.end_first()
    for _ in range(4):
        deployment.round()
    assert [event.workflow_id for event in deployment.events("press.Print")].count("wf-1") == 1

    presses.release()
    deployment.settle()
    assert_delivered(deployment, ["wf-1", "quick"])


def test_taking_a_script_back_moves_no_offset(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    deployment.evaluator()
    start_catalogue(deployment)
    deployment.round()
    before = deployment.store.positions()
    presses.end_first()
    deployment.round()

    assert deployment.store.positions() == before
    assert len(deployment.steps("wf-1")) > 1


def test_a_workflow_with_many_scripts_leaves_room_for_one_with_few(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    deployment.evaluator()
    many = [f"item {number:03}" for number in range(60)]
    start_catalogue(deployment, "many", many)
    deployment.round()
    presses.release()
    deployment.round()
    deployment.round()
    # What the runner has now is all of the large one's, and less than that has.
    assert len(presses.lying) < len(many)
    start_catalogue(deployment, "few", ["one"])
    deployment.round()

    for _ in range(10):
        presses.end_first()
        deployment.round()
    assert presses.runs["opened of ['one']"] == 1


def test_a_failing_script_fails_its_step_by_name_and_tells_its_subscribers(world: World, pool: ScriptPool) -> None:
    deployment = world.deployment(
        """
        namespace broken {
          facet Divide(by: Long) => (share: Long) script { result["share"] = 1 // params["by"] }
          workflow Share(by: Long) => (share: Long) andThen { d = Divide(by = $.by) yield Share(share = d.share) }
        }
        """,
        scripts=pool,
    )
    deployment.evaluator()
    deployment.client.start("broken.Share", {"by": 0}, workflow_id="wf-1")

    def has_ended() -> bool:
        deployment.round()
        row = deployment.store.load_workflow("wf-1")
        return row is not None and row.status == ERROR

    eventually(has_ended, 30)

    error = deployment.workflow("wf-1").error
    assert error is not None
    assert (error.type, error.path) == ("ZeroDivisionError", "broken.Share.d")
    assert error.message == "ZeroDivisionError: integer division or modulo by zero"
    assert [m.kind for m in deployment.milestones("wf-1")] == ["workflow.started", "workflow.error"]


def test_the_end_of_a_script_of_a_cancelled_workflow_changes_nothing(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    evaluator = deployment.evaluator()
    start_catalogue(deployment)
    deployment.round()
    deployment.send(CancelWorkflow(workflow_id="wf-1"))
    deployment.round()
    before = deployment.workflow("wf-1")
    presses.release()
    deployment.settle()

    assert before.status == "CANCELLED"
    assert deployment.workflow("wf-1") == before
    assert evaluator.stats.scripts == 0


def test_scripts_of_a_cancelled_workflow_that_have_not_begun_are_not_run(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    evaluator = deployment.evaluator()
    start_catalogue(deployment, items=[f"item {number:03}" for number in range(500)])
    deployment.round()
    presses.end_first()
    deployment.round()
    begun = sum(presses.runs.values())
    waiting = evaluator.stats.scripts - len(presses.lying)
    deployment.send(CancelWorkflow(workflow_id="wf-1"))
    deployment.round()
    presses.release()
    deployment.settle()

    assert waiting > 400
    assert sum(presses.runs.values()) == begun
    assert evaluator.stats.scripts == 0


def test_an_agent_gets_what_the_script_of_its_facet_added_to_the_payload(world: World) -> None:
    class Adding(Presses):
        def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
            future: Future[ScriptResult] = Future()
            future.set_result(ScriptResult(result={"hint": ["a", 1]}, printed="", duration_s=0.0))
            return future

    seen: list[dict[str, object]] = []

    def ask(payload: dict[str, object], context: HandlerContext) -> dict[str, object]:
        seen.append({name: value for name, value in payload.items() if not name.startswith("_")})
        return {"said": "yes"}

    deployment = world.deployment(
        """
        namespace desk {
          event facet Ask(what: String) => (said: String) script { result["hint"] = ["a", 1] }
          workflow Report() => (said: String) andThen { a = Ask(what = "tea") yield Report(said = a.said) }
        }
        """,
        scripts=Adding(),
    )
    deployment.evaluator()
    deployment.worker({"desk.Ask": ask})
    deployment.client.start("desk.Report", {}, workflow_id="wf-1")
    deployment.settle()

    assert deployment.workflow("wf-1").outputs == {"said": "yes"}
    assert seen == [{"what": "tea", "hint": ["a", 1]}]


# --- where they are not allowed --------------------------------------------------------------------------------------


def test_a_workflow_that_can_come_to_a_script_is_not_started_where_scripts_are_not_allowed(world: World) -> None:
    deployment = world.deployment(PRESS)
    deployment.evaluator()
    start_catalogue(deployment)
    start_leaflet(deployment, "plain")
    deployment.settle()

    assert deployment.store.load_workflow("wf-1") is None
    assert deployment.workflow("plain").status == PAUSED
    (letter,) = deployment.dead_letters(deployment.topology.commands())
    said = b" ".join(headers_of(letter).values()).decode()
    assert "press.Catalogue has a script" in said
    assert "--allow-scripts" in said
    (reported,) = deployment.milestones("wf-1")
    assert reported.kind == "workflow.rejected"
    assert reported.error is not None
    assert reported.error.type == "ScriptsNotAllowed"


def test_a_script_that_an_evaluator_without_permission_comes_to_fails_its_step_by_name(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    trusting = deployment.evaluator()
    start_catalogue(deployment)
    while not presses.lying:
        deployment.round()
    deployment.remove(trusting, killed=True)
    careful = replace(deployment.config, evaluator=replace(deployment.config.evaluator, allow_scripts=False))
    deployment.config, deployment.scripts = careful, None
    deployment.evaluator()
    deployment.settle()

    error = deployment.workflow("wf-1").error
    assert error is not None
    assert (error.type, error.facet) == ("ScriptsNotAllowed", "press.Catalogue")


def test_a_pool_is_made_as_the_settings_say() -> None:
    with open_script_pool(ScriptSettings(workers=1, printed_bytes=10)) as pool:
        assert pool.run("print('x' * 1000)", {}).printed.startswith("x" * 10 + "\n...")


def test_an_aspect_that_scripts_cannot_be_shut_off_from_by_that_name_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="accept_missing: found 'network, files, pets', expected some of"):
        open_script_pool(ScriptSettings(accept_missing="network, files, pets"))


def test_a_service_that_may_run_scripts_has_a_pool_of_its_own_and_ends_it(world: World) -> None:
    before = _script_threads()
    deployment = world.deployment(PRESS, evaluator=EvaluatorSettings(allow_scripts=True))
    evaluator = deployment.evaluator()
    deployment.worker(HANDLERS)
    start_catalogue(deployment)

    def has_ended() -> bool:
        deployment.round()
        row = deployment.store.load_workflow("wf-1")
        return row is not None and row.status == COMPLETED

    eventually(has_ended, 30)
    deployment.remove(evaluator, killed=False)

    assert _script_threads() == before


def _script_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("afl-script")}


# --- runners that cannot ---------------------------------------------------------------------------------------------


class OutOfMemory(Presses):
    """Has no process to run anything in, the first few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        if not self.left:
            return super().submit(code, params, workflow_id)
        self.left -= 1
        future: Future[ScriptResult] = Future()
        future.set_exception(ScriptWorkerUnavailable("no memory"))
        return future


def test_a_worker_that_cannot_be_started_is_tried_again_and_fails_no_step(world: World) -> None:
    deployment = world.deployment(PRESS, scripts=OutOfMemory(1))
    evaluator = deployment.evaluator()
    deployment.worker(HANDLERS)
    start_catalogue(deployment)

    def has_ended() -> bool:
        deployment.round()
        row = deployment.store.load_workflow("wf-1")
        return row is not None and row.status == COMPLETED

    eventually(has_ended, 30)
    assert evaluator.stats.scripts == 0
    assert deployment.workflow("wf-1").outputs == {
        "texts": ["text 1", "text 1"],
        "pages": [6, 6],
        "title": "title 1",
        "opened": "opened 1",
    }
    assert len(ITEMS) == 2
