"""The report of what a run waits for: its causes by stable codes, in words, and with the commands that would help."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class CauseCode(StrEnum):
    """Why a run, or one of its steps, does not move on. Values are printed: never change one."""

    #: Of the run.
    ENDED = "ended"
    START_PENDING = "start-pending"
    START_REFUSED = "start-refused"
    RUNNABLE = "runnable"
    WORKFLOW_PAUSED = "workflow-paused"
    NO_EVALUATOR = "no-evaluator"
    EVALUATOR_BEHIND = "evaluator-behind"
    #: Of a step that the runtime answers itself.
    EXTERNAL_EVENT = "external-event"
    TIMER = "timer"
    RETRY = "retry"
    SCRIPT = "script"
    #: Of a step whose event an agent answers.
    FACET_PAUSED = "facet-paused"
    TASK = "task"
    TOPIC_MISSING = "topic-missing"
    NOT_PUBLISHED = "not-published"
    EVENT_GONE = "event-gone"
    EVENT_DEAD_LETTERED = "event-dead-lettered"
    NO_AGENT = "no-agent"
    HANDLER_UNREGISTERED = "handler-unregistered"
    AGENT_BEHIND = "agent-behind"
    AT_WORK = "at-work"
    TRY_FAILED = "try-failed"
    ANSWER_MISSING = "answer-missing"
    ANSWER_UNREAD = "answer-unread"
    ANSWER_REFUSED = "answer-refused"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause. `commands` are words of commands that would help, without the program's name and its options."""

    code: CauseCode
    text: str
    commands: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One step that waits. What is not known is None, and the report's `unknown` says why.

    Times are ms since the epoch. `file`, `line` and `source` are the place of the call in AFL, and its text. `offset`
    is that of the step's event, `committed` the next offset that the group has not finished, `lag` how many offsets of
    the partition are behind that. `members` are those of the group, by client id and host.
    """

    step_id: str
    path: str
    facet: str
    attempt: int
    causes: tuple[Cause, ...]
    since_ms: int | None = None
    deadline_ms: int | None = None
    next_retry_ms: int | None = None
    event_name: str | None = None
    last_error: str | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    group: str | None = None
    committed: int | None = None
    lag: int | None = None
    members: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReport:
    """What a run waits for now: causes of the run as a whole, and steps that wait. `unknown`: what could not be found
    out, and why.
    """

    workflow_id: str
    workflow: str
    status: str
    causes: tuple[Cause, ...] = ()
    waits: tuple[Wait, ...] = ()
    unknown: tuple[str, ...] = ()

    def codes(self) -> set[str]:
        """Return the codes of all causes: the run's, and those of its steps."""
        return {cause.code.value for cause in (*self.causes, *(cause for wait in self.waits for cause in wait.causes))}

    def document(self) -> dict[str, object]:
        """Return the report as JSON has it."""
        return asdict(self)
