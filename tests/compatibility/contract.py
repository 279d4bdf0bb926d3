"""The duties of this release to a store and a log that an earlier one wrote: read, continue, and answer.

The expected values are worked out from the story and the language, not copied from a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from afl.engine.model.entities import RunnerState, ServerState, TaskState
from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, PAUSED, RUNNING
from afl.engine.model.tombstones import PURGED
from afl.engine.states import EventState
from afl.stores.maintenance.check import Inspection
from afl_stream.agent.agent import Agent, AgentConfig, HandlerContext
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.transport import TopicPartition
from afl_stream.wire.messages import (
    Command,
    Lifecycle,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
)
from tests.compatibility.dumps import headers_of_line
from tests.compatibility.story import PEOPLE, REGISTERED_AT_MS, result_for
from tests.compatibility.world import CLUSTER_ID, MARK, STORE_ID, World

#: How the runs were left: status, execution, and the type of the error.
LEFT: Final = {
    "settle-waiting": (PAUSED, 1, None),
    "settle-finished": (COMPLETED, 1, None),
    "report-failed": (ERROR, 1, "Busy"),
    "report-failing": (PAUSED, 1, None),
    "report-cancelled": (CANCELLED, 1, "Cancelled"),
    "report-retried": (PAUSED, 1, None),
    "report-rerun": (PAUSED, 2, None),
    "report-reset": (PAUSED, 2, None),
    "report-parked": (PAUSED, 1, None),
    "report-later": (PAUSED, 1, None),
    "careful-caught": (PAUSED, 1, None),
    "contract-pending": (PAUSED, 1, None),
    "contract-claimed": (PAUSED, 1, None),
    "call-finished": (COMPLETED, 1, None),
    "survey": (RUNNING, 1, None),
}

#: What is asked, and for which attempt, by run.
ASKED: Final[dict[str, set[tuple[str, int]]]] = {
    "settle-waiting": {("a cup", 1)},
    "report-failing": {("second", 1)},
    "report-retried": {("first", 2), ("second", 1)},
    "report-rerun": {("first", 2)},
    "report-reset": {("first", 2), ("second", 2)},
    "report-parked": {("first", 1), ("second", 1)},
    "report-later": {("first", 1), ("other", 1)},
    "careful-caught": {("Busy: not today", 1)},
    "contract-pending": {("contract-pending", 1)},
    "contract-claimed": {("contract-claimed", 1)},
    "survey": {("May we ask?", 1)},
}

_RE_FIRST: Final = "re: first"
_RE_RE_FIRST: Final = "re: re: first"
#: What a report gives when all of its questions are answered by `result_for`: a share of 5 letters in 6.
REPORT: Final = {"answers": [_RE_FIRST, "re: second", _RE_RE_FIRST], "share": 5 / 6}

#: What becomes of the runs once everything is answered.
OUTPUTS: Final[dict[str, dict[str, object]]] = {
    # 700 are answered, 500 to come; over the limit of 1,000 the reason is asked for.
    "settle-waiting": {"paid": 1_200, "by": "ann", "remarks": ["because: Why 1200?"]},
    "report-retried": REPORT,
    # The second question does not depend on the first, and keeps its answer, "two", of 4 letters.
    "report-rerun": {"answers": [_RE_FIRST, "two", _RE_RE_FIRST], "share": 5 / 4},
    "report-reset": REPORT,
    "report-parked": REPORT,
    "report-later": {"answers": [_RE_FIRST, "re: other", _RE_RE_FIRST], "share": 1.0},
    "careful-caught": {"answer": "re: Busy: not today"},
    "contract-pending": {"signature": "CONTRACT-PENDING"},
    "contract-claimed": {"signature": "CONTRACT-CLAIMED"},
    "survey": {"answers": ["re: May we ask?", *(f"re: How are you, {person}?" for person in PEOPLE)]},
}


def question_of(params: Mapping[str, Any]) -> str:
    """Return what tells a waiting step from the others of its run."""
    return str(params.get("question") or params.get("paper") or params["line"]["text"])


def put_stored_answers(earlier: World, answers: str, workflow_id: str) -> int:
    """Append the stored answers to a run, byte for byte; how many they are."""
    lines = [json.loads(line) for line in answers.splitlines()]
    lines = [line for line in lines if line["key"] == workflow_id]
    for line in lines:
        value = bytes.fromhex(line["value"]) if line["form"] == "avro" else line["value"].encode()
        headers = headers_of_line(line["headers"])
        earlier.put(earlier.topology.control(), value, key=workflow_id.encode(), headers=headers)
    return len(lines)


def answer_all(earlier: World, workflow_id: str) -> None:
    """Answer what the run asks, until it asks no more."""
    while earlier.workflow(workflow_id).status in (PAUSED, RUNNING):
        waiting = [step for step in earlier.waiting(workflow_id) if step.attempt]
        assert waiting, f"{workflow_id} waits for nothing"
        for step in waiting:
            earlier.send(StepContinue(step_id=step.id, result=result_for(step.facet_name, step.params)))


class WrittenBefore:
    """Inherit, and give a `earlier` on a restored store and log, and the stored `answers`."""

    # --- reading ------------------------------------------------------------------------------------------------

    def test_runs_stand_as_they_were_left(self, earlier: World) -> None:
        found = {
            row.id: (row.status, row.execution, row.error.type if row.error is not None else None)
            for row in earlier.store.list_workflows()
        }

        assert found == LEFT
        assert earlier.store.runnable_workflows() == ["survey"]

    def test_ended_runs_have_their_outputs(self, earlier: World) -> None:
        assert earlier.workflow("settle-finished").outputs == {"paid": 30, "by": "bob", "remarks": ["small"]}
        assert earlier.workflow("call-finished").outputs == {"loud": "HELLO"}
        assert earlier.workflow("report-failed").error.message == "not today"  # type: ignore[union-attr]  # it failed

    def test_inputs_are_as_they_were_given(self, earlier: World) -> None:
        claim = earlier.workflow("settle-waiting").inputs["claim"]

        assert isinstance(claim, dict)
        assert claim["extra"] == {"since": 2019, "scores": [1, 2.5, None, True, "ß"]}

    def test_what_was_asked_is_still_asked(self, earlier: World) -> None:
        found = {run: {(question_of(s.params), s.attempt) for s in earlier.waiting(run)} for run in ASKED}

        assert found == ASKED

    def test_a_partial_answer_is_kept(self, earlier: World) -> None:
        (cup,) = earlier.waiting("settle-waiting")

        assert cup.returns == {"sure": False}
        assert cup.event_state == EventState.PROCESSING

    def test_parameters_have_their_defaults_implicits_and_mixins(self, earlier: World) -> None:
        (cup,) = earlier.waiting("settle-waiting")

        assert cup.params == {
            "line": {"text": "a cup", "cents": 500},
            "tone": "brisk",
            "weights": [0.5, 1.0],
            "minutes": 2,
            "retry": {"times": 5, "policy": "retry-5"},
        }

    def test_answers_that_came_early_are_parked(self, earlier: World) -> None:
        assert sorted(record.workflow_id for record in earlier.store.parked()) == [
            "report-parked",
            "report-to-come",
        ]

    def test_what_was_committed_and_not_published_is_in_the_outbox(self, earlier: World) -> None:
        found = [(stored.record.topic, stored.record.lane) for stored in earlier.store.outbox()]

        assert found == [("afl.lifecycle", "control/1"), ("afl.events.desk.Ask", "control/1")]

    def test_reading_continues_behind_what_was_read(self, earlier: World) -> None:
        reader = earlier.transport.consumer(None)
        ends = {
            (topic, n): reader.watermarks(TopicPartition(topic, n)).high
            for topic in ("afl.control", "afl.commands")
            for n in (0, 1)
        }
        reader.close()

        found = earlier.store.positions()
        # No external event was raised: later releases keep a position there nevertheless.
        read = {(place.topic, place.partition): offset for place, offset in found.items()}
        assert {place: offset for place, offset in read.items() if place[0] != "afl.external"} == ends
        assert {place.cluster_id for place in found} == {CLUSTER_ID}
        assert sum(ends.values()) == 45  # All that the story sends: 24 commands and 21 answers.

    def test_a_purged_run_has_left_a_tombstone(self, earlier: World) -> None:
        (found,) = earlier.store.tombstones(state=PURGED)

        assert (found.workflow_id, found.name, found.status) == ("report-purged", "desk.Report", COMPLETED)
        assert earlier.store.load_workflow("report-purged") is None

    def test_the_store_is_the_one_it_was(self, earlier: World) -> None:
        assert earlier.store.identity().id == STORE_ID
        assert MARK in earlier.store.identity().marks
        assert earlier.store.prefix() == "afl."

    def test_tasks_are_as_they_were_left(self, earlier: World) -> None:
        store: Any = earlier.store
        pending = store.get_pending_tasks("default")
        (claimed,) = store.leased_tasks()

        assert {task.name for task in pending} == {"desk.Sweep", "desk.Sign"}
        assert store.get_task("task-by-hand").data == {"amount": 3, "double": 2.5}
        assert (claimed.workflow_id, claimed.owner, claimed.state) == (
            "contract-claimed",
            "poller-1",
            TaskState.RUNNING,
        )
        assert claimed.lease_expires - claimed.claimed == 60_000

    def test_what_the_public_face_wrote_is_read(self, earlier: World) -> None:
        store: Any = earlier.store
        (registration,) = store.list_handler_registrations()
        (server,) = store.get_all_servers()
        (log,) = store.get_logs_by_runner("runner-1")
        runner = store.get_runner("runner-1")
        lock = store.check_lock("desk")
        step = store.get_step("by-hand-1")
        event = store.get_event("event-by-hand")

        assert (registration.facet_name, registration.module_uri, registration.entrypoint) == (
            "desk.Ask",
            "desk_handlers",
            "ask",
        )
        assert (registration.timeout_ms, registration.metadata) == (5_000, {"tone": "calm", "tries": 3})
        assert (registration.created, registration.updated) == (REGISTERED_AT_MS, REGISTERED_AT_MS + 1)
        assert (server.state, server.server_ips, server.topics) == (ServerState.RUNNING, ["192.0.2.1"], ["desk.Sign"])
        assert (log.message, log.time) == ("begun", REGISTERED_AT_MS)
        # Its run has failed, and so has the runner: as it is looked at.
        assert (runner.state, runner.user.email) == (RunnerState.FAILED, "ann@example.org")
        assert runner.workflow.metadata.tags == ["desk"]
        assert (lock.meta.topic, lock.expires_at - lock.acquired_at) == ("desk.Sign", 60_000)
        assert step.get_attribute("answer") == {"lines": [1, 2]}
        assert (event.event_type, event.payload) == ("desk.Ask", {"question": "by hand"})

    def test_no_rule_of_a_store_is_broken(self, earlier: World) -> None:
        assert list(Inspection(store=earlier.store).findings()) == []

    # --- going on -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("workflow_id", OUTPUTS)
    def test_a_run_that_is_answered_by_stored_records_comes_to_its_end(
        self, earlier: World, answers: str, workflow_id: str
    ) -> None:
        earlier.open_evaluator()

        assert put_stored_answers(earlier, answers, workflow_id) == len(ASKED[workflow_id])
        answer_all(earlier, workflow_id)

        run = earlier.workflow(workflow_id)
        assert (run.status, run.outputs) == (COMPLETED, OUTPUTS[workflow_id])

    def test_a_run_that_was_failing_has_failed_when_the_rest_is_answered(self, earlier: World, answers: str) -> None:
        earlier.open_evaluator()

        put_stored_answers(earlier, answers, "report-failing")

        run = earlier.workflow("report-failing")
        assert run.status == ERROR
        assert (run.error.type, run.error.message) == ("Busy", "not today")  # type: ignore[union-attr]  # it failed

    def test_agents_that_read_the_stored_events_answer_all_questions(self, earlier: World) -> None:
        earlier.open_evaluator()
        config = AgentConfig(stream=earlier.config, name="now", group="now", commit_interval_s=0.0, poll_timeout_s=0.0)
        agent = Agent(config, EmbeddedTransport(earlier.broker))

        def ask(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
            return result_for("desk.Ask", payload)

        agent.register("desk.Ask", ask)
        agent.start()
        reports = ["report-retried", "report-rerun", "report-reset", "report-later", "careful-caught", "survey"]
        for _ in range(1_000):
            agent.run_once(0.01)
            earlier.settle()
            if all(earlier.workflow(run).status == COMPLETED for run in reports):
                break
        agent.close()

        assert {run: earlier.workflow(run).outputs for run in reports} == {run: OUTPUTS[run] for run in reports}

    def test_the_outbox_is_published_by_the_next_owner(self, earlier: World) -> None:
        assert not [event for event in earlier.events("desk.Ask") if event.workflow_id == "survey"]

        earlier.open_evaluator()

        found = [event for event in earlier.events("desk.Ask") if event.workflow_id == "survey"]
        # What the run asks when it goes on, too.
        assert [event.payload["question"] for event in found].count("May we ask?") == 1
        assert {event.payload["question"] for event in found} == {
            "May we ask?",
            *(f"How are you, {person}?" for person in PEOPLE),
        }
        assert earlier.store.outbox() == []

    def test_a_parked_answer_is_taken_when_its_run_starts(self, earlier: World) -> None:
        earlier.open_evaluator()

        earlier.send(_start("report-to-come"))
        answer_all(earlier, "report-to-come")

        # A program that was deployed later is the one of that name now. "known before" has 8 letters, "other" 5.
        run = earlier.workflow("report-to-come")
        assert run.outputs == {"answers": ["known before", "re: other", "re: known before"], "share": 8 / 5}

    def test_a_parked_answer_is_taken_by_the_attempt_that_it_is_for(self, earlier: World) -> None:
        earlier.open_evaluator()
        step = earlier.asked("report-parked", question="first")
        earlier.put(
            earlier.topology.control(),
            json.dumps({"step_id": step.id, "error": {"type": "Busy", "message": "again"}}).encode(),
            key=b"report-parked",
        )

        earlier.send(RetryStep(workflow_id="report-parked", step_id=step.id))
        answer_all(earlier, "report-parked")

        # "early" is the parked answer; it said that it has 5 letters.
        run = earlier.workflow("report-parked")
        assert run.outputs == {"answers": ["early", "re: second", "re: early"], "share": 5 / 6}

    @pytest.mark.parametrize("workflow_id", ["report-failed", "report-cancelled"])
    def test_a_run_that_has_ended_badly_is_retried(self, earlier: World, workflow_id: str) -> None:
        earlier.open_evaluator()

        earlier.send(RetryStep(workflow_id=workflow_id))
        answer_all(earlier, workflow_id)

        # Of the failed one the second question had been answered, by "two", of 4 letters.
        kept = {"report-failed": OUTPUTS["report-rerun"], "report-cancelled": REPORT}
        assert earlier.workflow(workflow_id).outputs == kept[workflow_id]

    def test_a_run_that_has_ended_well_is_reset(self, earlier: World) -> None:
        earlier.open_evaluator()

        earlier.send(ResetWorkflow(workflow_id="settle-finished"))
        answer_all(earlier, "settle-finished")

        run = earlier.workflow("settle-finished")
        assert (run.execution, run.outputs) == (2, {"paid": 30, "by": "ann", "remarks": ["small"]})

    @pytest.mark.parametrize("command_id", ["retry-1", "rerun-1", "reset-1"])
    def test_a_command_that_was_carried_out_is_not_carried_out_again(self, earlier: World, command_id: str) -> None:
        earlier.open_evaluator()
        (command,) = [
            message
            for record in earlier.records("afl.commands")
            if record.value is not None
            and isinstance(message := earlier.codec.decode(record.value, json_allowed=True), Command)
            and message.command_id == command_id
        ]
        before = earlier.workflow(command.workflow_id)

        earlier.send(command)

        assert earlier.workflow(command.workflow_id) == before

    def test_a_start_that_is_repeated_starts_nothing(self, earlier: World) -> None:
        earlier.open_evaluator()
        known = ["report-failed", "report-retried"]
        before = [earlier.workflow(run) for run in known]

        # The program that the name means by now is another one: so the one of the run is named.
        for run, row in zip(known, before, strict=True):
            earlier.send(_start(run, program=row.program))
        earlier.send(_start("report-purged"))

        assert [earlier.workflow(run) for run in known] == before
        assert earlier.store.load_workflow("report-purged") is None

    def test_a_start_of_a_purged_run_is_refused_as_one(self, earlier: World) -> None:
        earlier.open_evaluator()

        (tombstone,) = earlier.store.tombstones(state=PURGED)

        earlier.send(_start("report-purged", program=tombstone.program, command_id="again"))

        (reported,) = [
            message
            for record in earlier.records("afl.lifecycle")
            if isinstance(message := earlier.codec.decode(record.value), Lifecycle) and message.command_id == "again"
        ]
        assert reported.error is not None
        assert reported.error.type == "AlreadyPurged"


def _start(workflow_id: str, **fields: Any) -> StartWorkflow:
    return StartWorkflow(workflow_id=workflow_id, workflow="desk.Report", inputs={"subject": "first"}, **fields)
