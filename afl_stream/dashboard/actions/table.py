"""The table of actions: pages make their forms of it, and the API its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from afl_stream.dashboard.actions.operator import Operator, Outcome
from afl_stream.dashboard.views.letters import LetterChoice
from afl_stream.wire.messages import workflow_of

#: The values of an action's target and fields, as they were checked.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a form. `kind`: `text`, `json` for any value, `object` for a JSON object, `afl` for a program."""

    name: str
    title: str
    kind: str = "text"
    is_required: bool = False
    help: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something an operator can do.

    `target` is the field that names what it is about, `path` its operation in the API, `back` the page to return to.
    `destroys`: it ends or overwrites something.
    """

    name: str
    title: str
    explains: str
    path: str
    act: Callable[[Operator, str, Values], Outcome]
    back: Callable[[Values], str]
    target: str | None = None
    fields: tuple[Field, ...] = ()
    destroys: bool = False
    button: str = ""

    @property
    def button_text(self) -> str:
        return self.button or self.title


def _run(values: Values) -> str:
    return f"/runs/{quote(values['run'], safe='')}"


def _step(values: Values) -> str:
    step = values["step"]
    return f"/runs/{quote(workflow_of(step), safe='')}/steps/{quote(step, safe='')}"


def _schedule_change(change: str) -> Callable[[Operator, str, Values], Outcome]:
    return lambda operator, _by, v: operator.change_schedule(v["schedule"], change)


def _at(path: str) -> Callable[[Values], str]:
    return lambda _values: path


_REASON: Final = Field(name="reason", title="Reason", help="Kept with the run, with your name.")
_BECAUSE: Final = Field(name="reason", title="Reason", help="Kept with the letter, with your name.")

_OF_RUNS: Final = (
    Action(
        name="cancel",
        title="Cancel the run",
        explains="The run ends as cancelled, whatever it waits for. Later answers have no effect. It can be retried.",
        path="/runs/{run}/cancel",
        target="run",
        fields=(_REASON,),
        destroys=True,
        act=lambda operator, by, v: operator.cancel(by, v["run"], v["reason"]),
        back=_run,
    ),
    Action(
        name="pause-run",
        title="Pause the run",
        explains="It makes no further step until it is resumed. Answers to its events are kept, its timers wait.",
        path="/runs/{run}/pause",
        target="run",
        fields=(_REASON,),
        act=lambda operator, by, v: operator.pause(by, run=v["run"], reason=v["reason"]),
        back=_run,
    ),
    Action(
        name="resume-run",
        title="Resume the run",
        explains="It goes on where it was paused.",
        path="/runs/{run}/resume",
        target="run",
        act=lambda operator, _by, v: operator.resume(run=v["run"]),
        back=_run,
    ),
    Action(
        name="retry",
        title="Retry what has failed",
        explains="Steps that failed are tried again; those that the failure had stopped go on. Complete steps stay.",
        path="/runs/{run}/retry",
        target="run",
        fields=(_REASON,),
        act=lambda operator, by, v: operator.retry(by, v["run"], v["reason"]),
        back=_run,
    ),
    Action(
        name="reset",
        title="Start the run over",
        explains="It begins again with the same inputs and program, whatever its result was.",
        path="/runs/{run}/reset",
        target="run",
        fields=(_REASON,),
        destroys=True,
        act=lambda operator, by, v: operator.reset(by, v["run"], v["reason"]),
        back=_run,
    ),
    Action(
        name="migrate",
        title="Move the run to another version",
        explains="It goes on by another version of its program. What it has done stays, and its events are answered as "
        "before. If its steps or values do not fit, it stays as it is, and what does not fit is named.",
        path="/runs/{run}/migrate",
        target="run",
        fields=(
            Field(
                name="to",
                title="Version",
                is_required=True,
                default="current",
                help="The first digits of a program's id; or current, the one that is deployed now.",
            ),
            _REASON,
        ),
        destroys=True,
        button="Move it",
        act=lambda operator, by, v: operator.migrate(by, v["run"], v["to"], v["reason"]),
        back=_run,
    ),
    Action(
        name="raise",
        title="Raise an external event",
        explains="A step that waits for an event of this name takes it; else it is kept until one does.",
        path="/runs/{run}/events",
        target="run",
        fields=(
            Field(name="name", title="Name", is_required=True),
            Field(name="data", title="Data", kind="json", default="null", help="Any JSON value."),
            Field(name="id", title="Id", help="The same id counts once; without one each call is an event of its own."),
        ),
        button="Raise it",
        act=lambda operator, _by, v: operator.raise_event(v["run"], v["name"], v["data"], v["id"]),
        back=_run,
    ),
)
_OF_STEPS: Final = (
    Action(
        name="continue",
        title="Continue the step by hand",
        explains="You answer in the place of an agent. The result is checked against what the facet returns.",
        path="/steps/{step}/continue",
        target="step",
        fields=(
            Field(
                name="result",
                title="Result",
                kind="object",
                is_required=True,
                default="{}",
                help='A JSON object: {"receipt": "r-1"}',
            ),
        ),
        act=lambda operator, _by, v: operator.continue_step(v["step"], v["result"]),
        back=_step,
    ),
    Action(
        name="fail",
        title="Fail the step by hand",
        explains="The step fails as if its agent had said so: a catch around it runs, or the run fails.",
        path="/steps/{step}/fail",
        target="step",
        fields=(
            Field(name="message", title="Message", help="What went wrong."),
            Field(name="type", title="Type", default="Failed", help="The class of the error, by name."),
        ),
        destroys=True,
        act=lambda operator, by, v: operator.fail_step(by, v["step"], v["message"], v["type"]),
        back=_step,
    ),
    Action(
        name="retry-step",
        title="Retry the step",
        explains="The failed step is tried again with a higher attempt; answers to earlier ones do not count.",
        path="/steps/{step}/retry",
        target="step",
        fields=(_REASON,),
        act=lambda operator, by, v: operator.retry(by, workflow_of(v["step"]), v["reason"], v["step"]),
        back=_step,
    ),
    Action(
        name="rerun",
        title="Run the step again",
        explains="The step runs again, whatever its result was, with all steps that depend on it. The run must have "
        "ended, or wait.",
        path="/steps/{step}/rerun",
        target="step",
        fields=(_REASON,),
        destroys=True,
        act=lambda operator, by, v: operator.rerun(by, v["step"], v["reason"]),
        back=lambda v: f"/runs/{quote(workflow_of(v['step']), safe='')}",
    ),
)
_OF_PAUSES: Final = (
    Action(
        name="pause-facet",
        title="Pause a facet",
        explains="Its events are neither published nor started until it is resumed. Deadlines of those on the way run.",
        path="/facets/{facet}/pause",
        target="facet",
        fields=(_REASON,),
        act=lambda operator, by, v: operator.pause(by, facet=v["facet"], reason=v["reason"]),
        back=_at("/pauses"),
    ),
    Action(
        name="resume-facet",
        title="Resume a facet",
        explains="Its events are published and started again.",
        path="/facets/{facet}/resume",
        target="facet",
        act=lambda operator, _by, v: operator.resume(facet=v["facet"]),
        back=_at("/pauses"),
    ),
    Action(
        name="pause-all",
        title="Pause everything",
        explains="No event of any facet is published or started, and no run makes a step, until you resume everything.",
        path="/pause",
        fields=(_REASON,),
        destroys=True,
        act=lambda operator, by, v: operator.pause(by, reason=v["reason"]),
        back=_at("/pauses"),
    ),
    Action(
        name="resume-all",
        title="Resume everything",
        explains="The pause of everything ends; those of facets and runs stay.",
        path="/resume",
        act=lambda operator, _by, _v: operator.resume(),
        back=_at("/pauses"),
    ),
)
_OF_SCHEDULES: Final = tuple(
    Action(
        name=f"{change}-schedule",
        title=f"{change.capitalize()} the schedule",
        explains=explains,
        path=f"/schedules/{{schedule}}/{change}",
        target="schedule",
        destroys=change == "delete",
        act=_schedule_change(change),
        back=_at("/schedules"),
    )
    for change, explains in (
        ("pause", "It starts nothing until it is resumed; what falls into the pause is not made up."),
        ("resume", "It fires again."),
        ("trigger", "It starts a run now, besides those of its times."),
        ("delete", "It is gone. Runs that it has started go on."),
    )
)
_OF_OTHERS: Final = (
    Action(
        name="replay",
        title="Replay the dead letter",
        explains="Its record is sent to its topic again as it was, once, with a mark that names the letter.",
        path="/dead-letters/{place}/replay",
        target="place",
        act=lambda operator, _by, v: operator.replay([v["place"]]),
        back=lambda v: f"/dead-letters/{quote(v['place'], safe='')}",
    ),
    Action(
        name="replay-chosen",
        title="Replay dead letters",
        explains="The records of all open dead letters that fit are sent to their topics again, each once. Without any "
        "filter these are all.",
        path="/dead-letters/replay",
        fields=(
            Field(name="hop", title="Hop", help="events, control, commands, external or other; empty: any."),
            Field(name="reason", title="Reason", help="Its code, such as UnknownProgram."),
            Field(name="facet", title="Facet"),
            Field(name="workflow", title="Run"),
            Field(name="text", title="Text", help="A part of the error's text."),
            Field(name="since", title="Since", help="2h, 7d, or 2030-01-31T08:00."),
        ),
        destroys=True,
        button="Replay them",
        act=lambda operator, _by, v: operator.replay_chosen(LetterChoice(**v)),
        back=_at("/dead-letters"),
    ),
    Action(
        name="drop",
        title="Drop the dead letter",
        explains="It is marked as needing nothing more. Its record stays until the retention of its topic removes it.",
        path="/dead-letters/{place}/drop",
        target="place",
        fields=(_BECAUSE,),
        destroys=True,
        act=lambda operator, by, v: operator.drop(by, [v["place"]], v["reason"]),
        back=_at("/dead-letters"),
    ),
    Action(
        name="register-handler",
        title="Register or change a handler",
        explains="Agents that follow the registry load the module, if they allow it, and answer the facet's events "
        "with its function. The module has to be on their machines.",
        path="/handlers/{facet}/register",
        target="facet",
        fields=(
            Field(name="module", title="Module", is_required=True, help="A module, or a file:// address."),
            Field(name="entrypoint", title="Function", default="handle"),
            Field(name="limit", title="Time limit in seconds", default="30", help="0: as long as it takes."),
            Field(name="retry", title="Retries", help="Empty for none, or attempts=5, backoff=0.5"),
        ),
        button="Register it",
        act=lambda operator, _by, v: operator.register_handler(
            v["facet"], v["module"], v["entrypoint"], v["limit"], v["retry"]
        ),
        back=_at("/handlers"),
    ),
    Action(
        name="remove-handler",
        title="Remove the handler",
        explains="Agents that follow the registry stop starting its events; those that run are answered.",
        path="/handlers/{facet}/remove",
        target="facet",
        destroys=True,
        act=lambda operator, _by, v: operator.remove_handler(v["facet"]),
        back=_at("/handlers"),
    ),
    Action(
        name="deploy",
        title="Compile and deploy",
        explains="The text is compiled, topics that it lacks are created, and it becomes the current program of its "
        "workflows. Runs that have started keep theirs.",
        path="/programs",
        fields=(Field(name="text", title="AFL", kind="afl", is_required=True),),
        button="Compile and deploy",
        act=lambda operator, _by, v: operator.deploy(v["text"]),
        back=_at("/start"),
    ),
)

#: All actions by name.
ACTIONS: Final[Mapping[str, Action]] = {
    action.name: action for action in (*_OF_RUNS, *_OF_STEPS, *_OF_PAUSES, *_OF_SCHEDULES, *_OF_OTHERS)
}
