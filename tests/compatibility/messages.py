"""One or two records of every type, as their writers make them, and their bytes in both forms: Avro and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import (
    Answer,
    CancelWorkflow,
    Command,
    DescribeWorkflow,
    ExternalEvent,
    FailureReason,
    Lifecycle,
    Message,
    Pause,
    ProgramDefinition,
    ProgramPointer,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
    StoreClaim,
)
from tests.compatibility.dumps import header_line
from tests.compatibility.json_records import JSON_CONTENT, encode_json

AT_MS: Final = 1_764_000_000_123
SOURCE: Final = "/fixtures"
TRACE: Final = (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("other", b"stays behind"))

#: Values of every kind.
VALUES: Final[dict[str, object]] = {
    "null": None,
    "yes": True,
    "least": -(2**63),
    "most": 2**63 - 1,
    "double": -0.1,
    "large": 1e300,
    "text": "Grüße 🐢",
    "array": [1, [2.5, []], {}],
    "map": {"": {"a": None}},
}

MESSAGES: Final[dict[str, Message]] = {
    "continue": StepContinue(step_id="wf:ab", result=VALUES),
    "continue of an agent": StepContinue(
        step_id="wf:ab",
        result={"n": 1},
        workflow_id="wf",
        event_id="wf:ab#2",
        attempt=2,
        answer_token="1.token",
        agent="host/1",
        group="afl.agent.shop.Pay",
    ),
    "failed": StepFailed(
        step_id="wf:ab", error=FailureReason(type="Declined", message="no funds"), attempt=2, event_id="wf:ab#2"
    ),
    "update": StepUpdate(step_id="wf:ab", partial={"percent": 40}, workflow_id="wf", attempt=1),
    "start": StartWorkflow(workflow_id="wf", workflow="shop.Buy"),
    "start in full": StartWorkflow(
        workflow_id="wf",
        workflow="shop.Buy",
        program="f" * 64,
        inputs=VALUES,
        requested_by="ann",
        created_at=AT_MS,
        command_id="c-1",
    ),
    "cancel": CancelWorkflow(workflow_id="wf", reason="late", command_id="c-2"),
    "describe": DescribeWorkflow(workflow_id="wf", command_id="c-3"),
    "retry": RetryStep(workflow_id="wf"),
    "retry of a step": RetryStep(workflow_id="wf", step_id="wf:ab", reason="again", command_id="c-4"),
    "rerun": RerunStep(workflow_id="wf", step_id="wf:ab", reason="again", command_id="c-5"),
    "reset": ResetWorkflow(workflow_id="wf", reason="again", command_id="c-6"),
    "external": ExternalEvent(workflow_id="wf", name="paid", value=VALUES, id="x-1", created_at=AT_MS),
    "milestone": Lifecycle(
        workflow_id="wf", kind="workflow.completed", at=AT_MS, workflow="shop.Buy", outputs={"label": "L-1"}
    ),
    "milestone of a failure": Lifecycle(
        workflow_id="wf",
        kind="workflow.error",
        at=AT_MS,
        step_id="wf:ab",
        facet="shop.Pay",
        error=FailureReason(type="Declined", message="no funds"),
    ),
    "answer to a command": Lifecycle(
        workflow_id="wf", kind="command.applied", at=AT_MS, command_id="c-3", status="PAUSED", outputs={"waiting": []}
    ),
    "program": ProgramDefinition(
        fingerprint="f" * 64, program=b"packed", annotations=b"packed too", runtime_version="0.1.0"
    ),
    "pointer": ProgramPointer(workflow="shop.Buy", fingerprint="f" * 64),
    "claim": StoreClaim(store="s", mark="m", number=3, location="host:/store", host="host", at=AT_MS),
    "pause": Pause(scope="facet", name="shop.Charge", is_paused=True, at=AT_MS, reason="the bank is down"),
}


def lines_of_messages(codec: Codec) -> str:
    """All messages, a line each: name, form, headers, and value (Avro in hex digits)."""
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in _lines(codec)) + "\n"


def _lines(codec: Codec) -> Iterator[dict[str, object]]:
    for name, message in MESSAGES.items():
        headers = headers_for(message, source=SOURCE, at_ms=AT_MS, caused_by=TRACE, form=codec.header_form)
        value = codec.encode(message).hex()
        yield {"name": name, "form": "avro", "headers": header_line(headers), "value": value}
        if isinstance(message, Answer | Command | ExternalEvent):
            headers = headers_for(message, source=SOURCE, at_ms=AT_MS, content=JSON_CONTENT, form=codec.header_form)
            text = encode_json(message).decode()
            yield {"name": name, "form": "json", "headers": header_line(headers), "value": text}
