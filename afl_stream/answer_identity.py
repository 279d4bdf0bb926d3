"""What an answer or a start speaks of, by the ids in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afl.runtime.operators import values_equal
from afl.runtime.persistence import WorkflowRow
from afl.runtime.tombstones import Tombstone, digest_of_inputs
from afl_stream.errors import Reason, Unreadable
from afl_stream.messages import Answer, StartWorkflow, event_id_of, step_and_attempt_of, workflow_of


def workflow_of_answer(answer: Answer) -> str:
    """The workflow that an answer is for: its step's, which the one that it may name is, or it had not been read."""
    return workflow_of(answer.step_id) if answer.workflow_id is None else answer.workflow_id


def attempt_of_answer(answer: Answer) -> int | None:
    """The attempt that an answer is for; None: the current one. Raises Unreadable when its fields contradict."""
    if answer.event_id is None or (
        answer.attempt is not None and answer.event_id == event_id_of(answer.step_id, answer.attempt)
    ):
        return answer.attempt
    step_id, attempt = step_and_attempt_of(answer.event_id)
    if step_id != answer.step_id or answer.attempt not in (None, attempt):
        raise Unreadable(
            Reason.BAD_ID, f"event {answer.event_id} is not of step {answer.step_id}, attempt {answer.attempt}"
        )
    return attempt


def is_same_start(
    run: WorkflowRow | Tombstone, command: StartWorkflow, do_the_same: Callable[[str, str], bool]
) -> bool:
    """Whether a workflow that exists, or was purged, was started by this very command, so that it comes a second
    time. `do_the_same` tells of the fingerprints of two programs whether these do the same."""
    return (
        command.workflow in (run.name, run.name.rsplit(".", 1)[-1])
        and has_inputs(run, command.inputs)
        and (command.program in (None, run.program) or do_the_same(run.program, command.program))
    )


def has_inputs(run: WorkflowRow | Tombstone, inputs: Mapping[str, object]) -> bool:
    """Whether a workflow was started with these inputs."""
    if isinstance(run, Tombstone):
        return run.inputs_digest == digest_of_inputs(inputs)
    # Not Python's equality, for which true is 1.
    return values_equal(dict(run.inputs), dict(inputs))
