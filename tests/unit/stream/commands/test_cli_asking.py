"""A command and an evaluator's answer: it waits for it on Kafka, where it may."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from afl_stream.client.client import Client, NotAnswered, RefusedByEvaluator
from afl_stream.client.external_events import EventReceipt
from afl_stream.commands.asking import ANSWER_TIMEOUT_S, ask, what_comes_next
from afl_stream.commands.events.raising import report
from afl_stream.commands.invocation import Invocation
from afl_stream.errors import TopicMissing
from afl_stream.topics.declared import Topology
from afl_stream.transport import NotAuthorized
from afl_stream.wire.messages import FailureReason

ON_KAFKA = Invocation(bootstrap="localhost:1")
EMBEDDED = Invocation()


class Command:
    """Notes how long each call was told to wait, and raises what it is given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.waits: list[float | None] = []
        self._error = error

    def __call__(self, timeout_s: float | None) -> str:
        self.waits.append(timeout_s)
        if self._error is not None and timeout_s is not None:
            raise self._error
        return "answer"


def asked(invocation: Invocation, command: Command) -> str | None:
    client = cast(Client, SimpleNamespace(topology=Topology(invocation.settings())))
    return ask(invocation, client, command)


def test_on_kafka_the_answer_is_waited_for_and_on_the_embedded_log_it_is_not() -> None:
    on_kafka, embedded = Command(), Command()

    assert (asked(ON_KAFKA, on_kafka), asked(EMBEDDED, embedded)) == ("answer", None)
    assert (on_kafka.waits, embedded.waits) == ([ANSWER_TIMEOUT_S], [None])


def test_without_an_evaluator_the_command_has_been_given_once() -> None:
    command = Command(NotAnswered("StartWorkflow of w1", 5.0))

    assert asked(ON_KAFKA, command) is None
    assert command.waits == [ANSWER_TIMEOUT_S]
    assert "no evaluator has answered in 5 s" in what_comes_next(ON_KAFKA, "starts", is_answered=False)


def test_an_event_that_is_raised_without_a_wait_blames_no_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    report(ON_KAFKA, EventReceipt(workflow_id="w1", name="go", id="e1"), None)

    said = capsys.readouterr().err
    assert "has answered" not in said
    assert "an evaluator applies it as soon as one runs" in said


@pytest.mark.parametrize(
    "error", [NotAuthorized("topic afl.lifecycle", "denied"), TopicMissing("afl.lifecycle", "milestones of workflows")]
)
def test_who_may_not_read_answers_may_give_commands_all_the_same(error: Exception) -> None:
    command = Command(error)

    assert asked(ON_KAFKA, command) is None
    assert command.waits == [ANSWER_TIMEOUT_S, None]


@pytest.mark.parametrize(
    "error",
    [
        NotAuthorized("topic afl.commands", "denied"),
        TopicMissing("afl.commands", "commands"),
        RefusedByEvaluator("w1", FailureReason(type="AlreadyExists", message="")),
    ],
)
def test_a_refusal_and_what_keeps_a_command_from_its_topic_end_it(error: Exception) -> None:
    with pytest.raises(type(error)):
        asked(ON_KAFKA, Command(error))
