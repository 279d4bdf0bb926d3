"""The identity of an answer or a start, by the ids in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Final

from afl.core.text.masking import MASK, is_secret, masked_text
from afl.core.text.printable import printable
from afl.engine.model.store import WorkflowRow
from afl.engine.model.tombstones import Tombstone, digest_of_inputs
from afl.engine.values.operators import values_equal
from afl_stream.errors import Reason, Unreadable
from afl_stream.wire.messages import Answer, StartWorkflow, event_id_of, step_and_attempt_of, workflow_of

#: Limits of a message about two different starts: characters of a name or value, digits of a fingerprint, inputs.
_SHOWN_CHARS: Final = 60
_SHOWN_DIGITS: Final = 12
_MOST_INPUTS: Final = 5


def workflow_of_answer(answer: Answer) -> str:
    """Return the workflow that an answer is for: that of its step, which agrees with any that the answer names."""
    return workflow_of(answer.step_id) if answer.workflow_id is None else answer.workflow_id


def attempt_of_answer(answer: Answer) -> int | None:
    """Return the attempt that an answer is for; None: the current one. Raises Unreadable when its fields contradict."""
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


def differences_of_start(
    run: WorkflowRow | Tombstone,
    command: StartWorkflow,
    do_the_same: Callable[[str, str], bool],
    sensitive: Collection[str] = (),
) -> tuple[str, ...]:
    """Return how a start differs from the start of the workflow that has its id, which exists or was purged.

    No difference: it is a copy of that workflow's own start. `do_the_same` takes two fingerprints of programs and
    returns whether the programs do the same. `sensitive` names inputs whose values are not told.
    """
    is_short = command.workflow == run.name.rsplit(".", 1)[-1]
    program = command.program or run.program
    return start_differences(
        run,
        run.name if is_short else command.workflow,
        program,
        command.inputs,
        is_same_program=lambda: program == run.program or do_the_same(run.program, program),
        sensitive=sensitive,
    )


def start_differences(
    run: WorkflowRow | Tombstone,
    workflow: str,
    program: str,
    inputs: Mapping[str, object],
    *,
    is_same_program: Callable[[], bool],
    sensitive: Collection[str] = (),
) -> tuple[str, ...]:
    """Return in words how a start differs from that of a workflow: in name, program, and each input.

    `sensitive` names inputs whose values are not told; of a purged run they are not known, and count as equal.
    """
    found = []
    if workflow != run.name:
        found.append(f"it runs {run.name}, not {printable(workflow, _SHOWN_CHARS)}")
    elif not is_same_program():
        found.append(f"it runs program {run.program[:_SHOWN_DIGITS]}, not {printable(program[:_SHOWN_DIGITS])}")
    if has_inputs(run, inputs, sensitive):
        return tuple(found)
    if isinstance(run, Tombstone):
        return (*found, "it had other inputs (it was purged, so they are not known any more)")
    missing = object()
    names = [
        name
        for name in dict.fromkeys((*run.inputs, *inputs))
        if name not in run.inputs or name not in inputs or not values_equal(run.inputs[name], inputs[name])
    ]
    for name in names[:_MOST_INPUTS]:
        there, here = run.inputs.get(name, missing), inputs.get(name, missing)
        shown = [_shown(name, value, sensitive) if value is not missing else "left out" for value in (there, here)]
        found.append(f"input {printable(name, _SHOWN_CHARS)} is {shown[0]}, not {shown[1]}")
    if len(names) > _MOST_INPUTS:
        found.append(f"and {len(names) - _MOST_INPUTS} more inputs differ")
    return tuple(found)


def _shown(name: str, value: object, sensitive: Collection[str]) -> str:
    """Return an input's value for a message: without what may be a secret, and cut."""
    if name in sensitive or is_secret(name, value):
        return MASK
    return printable(masked_text(json.dumps(value, ensure_ascii=False, default=str)), _SHOWN_CHARS)


def has_inputs(run: WorkflowRow | Tombstone, inputs: Mapping[str, object], sensitive: Collection[str] = ()) -> bool:
    """Return whether a workflow was started with these inputs; of a purged one the sensitive ones are not known."""
    if isinstance(run, Tombstone):
        known = {name: value for name, value in inputs.items() if name not in sensitive}
        # Earlier releases have kept the digest of all.
        return run.inputs_digest in (digest_of_inputs(known), digest_of_inputs(inputs))
    # Python's equality would not do: for it true is 1.
    return values_equal(dict(run.inputs), dict(inputs))
