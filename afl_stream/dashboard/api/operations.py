"""The operations of the API that read: each with its path, its parameters and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.datastructures import QueryParams

from afl_stream.dashboard.actions.start_forms import start_form, workflow_names
from afl_stream.dashboard.context import Dashboard
from afl_stream.dashboard.views import registered
from afl_stream.dashboard.views.choices import MOST_RUNS
from afl_stream.dashboard.views.external import pending_events
from afl_stream.dashboard.views.letters import HOPS, find_letters, show_letter
from afl_stream.dashboard.views.messages import messages
from afl_stream.dashboard.views.parameters import choice_of, letter_choice_of, whole_number
from afl_stream.dashboard.views.run_lists import run_list
from afl_stream.dashboard.views.schedules import list_schedules, show_schedule
from afl_stream.dashboard.views.servers import list_servers
from afl_stream.dashboard.views.topics import topics
from afl_stream.visibility.choosing import STATES
from afl_stream.visibility.programs import list_programs, show_programs

Schema = Mapping[str, Any]
TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
OBJECT: Final[Schema] = {"type": "object"}
LIST: Final[Schema] = {"type": "array", "items": {"type": "object"}}
_TEXTS: Final[Schema] = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter in the query."""

    name: str
    description: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An operation that reads. `answer` is the schema of what it returns."""

    name: str
    path: str
    summary: str
    tag: str
    read: Callable[[Dashboard, Mapping[str, str], QueryParams], object]
    parameters: tuple[Parameter, ...] = ()
    answer: Schema = field(default_factory=lambda: OBJECT)


def _limit(default: int, most: int) -> Parameter:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter(name="limit", description="Most items of a page.", schema=schema)


def _several(name: str, description: str, values: tuple[str, ...] = ()) -> Parameter:
    items: Schema = {"type": "string", "enum": list(values)} if values else TEXT
    return Parameter(name=name, description=description, schema={"type": "array", "items": items})


def _one(name: str, description: str, schema: Schema = TEXT) -> Parameter:
    return Parameter(name=name, description=description, schema=schema)


_AFTER: Final = _one("after", "The page after this item, as `next_after` of the page before says.")
_RUN_LIST: Final[Schema] = {
    "type": "object",
    "required": ["workflows", "next_after"],
    "properties": {
        "workflows": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["workflow_id", "workflow", "status", "created_at_ms"],
                "properties": {
                    "workflow_id": TEXT,
                    "workflow": TEXT,
                    "status": {"enum": ["RUNNING", "WAITING", "COMPLETED", "ERROR", "CANCELLED"]},
                    "created_at_ms": COUNT,
                },
            },
        },
        "next_after": {"type": ["string", "null"]},
    },
}
_ITEMS: Final[Schema] = {
    "type": "object",
    "required": ["items", "next_after", "unreadable"],
    "properties": {"items": LIST, "next_after": {"type": ["string", "null"]}, "unreadable": _TEXTS},
}


def _runs(dashboard: Dashboard, _path: Mapping[str, str], query: QueryParams) -> object:
    limit = whole_number(query, "limit", default=50, low=1, high=MOST_RUNS)
    after = query.get("after") or None
    return run_list(dashboard.deployment, choice_of(query), after=after, limit=limit).to_dict()


def _run(dashboard: Dashboard, path: Mapping[str, str], query: QueryParams) -> object:
    if query.get("topics") == "true":
        view, problem = dashboard.runs.with_records(path["run"])
        return {**view.detail.to_dict(), "problem": problem or None}
    return dashboard.runs.view(path["run"]).detail.to_dict()


def _timeline(dashboard: Dashboard, path: Mapping[str, str], _query: QueryParams) -> object:
    view, problem = dashboard.runs.with_records(path["run"])
    return {"timeline": [one.to_dict() for one in dashboard.runs.timeline(view)], "problem": problem or None}


def _records(dashboard: Dashboard, path: Mapping[str, str], _query: QueryParams) -> object:
    view, problem = dashboard.runs.with_records(path["run"])
    found = {"records": [], "gaps": []} if view.detail.records is None else view.detail.records.to_dict()
    return {**found, "problem": problem or None}


def _why(dashboard: Dashboard, path: Mapping[str, str], _query: QueryParams) -> object:
    return dashboard.runs.why(dashboard.runs.view(path["run"]).workflow_id).document()


def _workflows(dashboard: Dashboard, _path: Mapping[str, str], _query: QueryParams) -> object:
    names, problem = workflow_names(dashboard.deployment)
    return {"workflows": names, "problem": problem or None}


def _workflow(dashboard: Dashboard, path: Mapping[str, str], _query: QueryParams) -> object:
    form = start_form(dashboard.deployment, path["workflow"])
    inputs = [{"name": one.name, "type": one.type, "required": one.is_required} for one in form.fields]
    return {"workflow": form.workflow, "doc": form.doc, "inputs": inputs}


def _servers(dashboard: Dashboard, _path: Mapping[str, str], query: QueryParams) -> object:
    found, hidden, problem = list_servers(dashboard.deployment, everybody=query.get("all") == "true")
    return {"servers": [one.to_dict() for one in found], "hidden": hidden, "problem": problem or None}


def _letters(dashboard: Dashboard, _path: Mapping[str, str], query: QueryParams) -> object:
    found, total = find_letters(dashboard.deployment, letter_choice_of(query))
    return {"letters": [one.to_dict() for one in found], "total": total}


def _schedules(dashboard: Dashboard, _path: Mapping[str, str], _query: QueryParams) -> object:
    found, wrong = list_schedules(dashboard.deployment)
    return {"schedules": [one.to_dict() for one in found], "unreadable": wrong}


def _messages(dashboard: Dashboard, path: Mapping[str, str], query: QueryParams) -> object:
    found = messages(
        dashboard.deployment,
        path["topic"],
        partition=whole_number(query, "partition", default=0, low=0, high=100_000) if query.get("partition") else None,
        offset=whole_number(query, "offset", default=0, low=0, high=1 << 48) if query.get("offset") else None,
        key=query.get("key", ""),
        limit=whole_number(query, "limit", default=20, low=1, high=200),
    )
    return {
        "topic": found.topic.name,
        "partition": found.partition,
        "messages": [one.to_dict() for one in found.messages],
        "next_offset": found.next_offset,
    }


def _external(dashboard: Dashboard, _path: Mapping[str, str], _query: QueryParams) -> object:
    return [
        {"workflow_id": one.workflow_id, "workflow": one.workflow, "name": one.name, "at_ms": one.at_ms}
        for one in pending_events(dashboard.deployment)
    ]


_BY_TIME: Final = (
    _one("since", "Since then: an age such as 2h or 7d, or a time such as 2026-11-30T17:25."),
    _one("until", "Before then, in the same forms."),
)

#: The operations that read, in the order of the document.
READINGS: Final[tuple[Reading, ...]] = (
    Reading(
        name="listRuns",
        path="/runs",
        summary="List runs, newest first. Every parameter narrows the list, one that is repeated widens it again.",
        tag="runs",
        read=_runs,
        parameters=(
            _several("state", "In one of these states.", tuple(STATES)),
            _several("workflow", "Of one of these workflows."),
            _several("program", "Of one of these programs; the beginning of its fingerprint will do."),
            _several("facet", "With a step of one of these facets."),
            *_BY_TIME,
            _one("error", "With this text in the first cause of its failure."),
            _several("input", "With this input, as NAME=VALUE."),
            _AFTER,
            _limit(50, MOST_RUNS),
        ),
        answer=_RUN_LIST,
    ),
    Reading(
        name="showRun",
        path="/runs/{run}",
        summary="Show a run: its steps as a tree, with states, times, values and failures.",
        tag="runs",
        read=_run,
        parameters=(
            _one("topics", "Whether the topics are read too: who answered, and when.", {"enum": ["true", "false"]}),
        ),
    ),
    Reading(
        name="showTimeline",
        path="/runs/{run}/timeline",
        summary="Show what happened to a run in order of time.",
        tag="runs",
        read=_timeline,
    ),
    Reading(
        name="showRecords",
        path="/runs/{run}/records",
        summary="Show the events and answers of a run in their topics.",
        tag="runs",
        read=_records,
    ),
    Reading(
        name="explainRun",
        path="/runs/{run}/why",
        summary="Say what a run waits for, since when and why.",
        tag="runs",
        read=_why,
    ),
    Reading(
        name="listWorkflows",
        path="/workflows",
        summary="List the workflows that can be started.",
        tag="programs",
        read=_workflows,
    ),
    Reading(
        name="showWorkflow",
        path="/workflows/{workflow}",
        summary="Show a workflow's signature.",
        tag="programs",
        read=_workflow,
    ),
    Reading(
        name="listPrograms",
        path="/programs",
        summary="List programs, the last one that ran first.",
        tag="programs",
        read=lambda d, _p, _q: [one.to_dict() for one in list_programs(d.deployment.store)],
        answer=LIST,
    ),
    Reading(
        name="showProgram",
        path="/programs/{program}",
        summary="Show the versions of a workflow, or one program, and what differs between them.",
        tag="programs",
        read=lambda d, p, _q: show_programs(d.deployment.store, p["program"]).to_dict(),
    ),
    Reading(
        name="listServers",
        path="/servers",
        summary="List who works for the deployment.",
        tag="deployment",
        read=_servers,
        parameters=(_one("all", "Also those that ended more than a day ago.", {"enum": ["true", "false"]}),),
    ),
    Reading(
        name="listDeadLetters",
        path="/dead-letters",
        summary="List dead letters, the newest first.",
        tag="records",
        read=_letters,
        parameters=(
            _one("hop", "Where it was on its way.", {"enum": list(HOPS)}),
            _one("reason", "Its reason, by code."),
            _one("facet", "Events of this facet."),
            _one("workflow", "Records of this run."),
            _one("text", "A part of the error's text."),
            _BY_TIME[0],
            _one("handled", "Also those that were replayed or dropped.", {"enum": ["true", "false"]}),
        ),
    ),
    Reading(
        name="showDeadLetter",
        path="/dead-letters/{place}",
        summary="Show a dead letter at TOPIC[PARTITION]@OFFSET with its record.",
        tag="records",
        read=lambda d, p, _q: show_letter(d.deployment, p["place"]).to_dict(),
    ),
    Reading(
        name="listTopics",
        path="/topics",
        summary="List topics with their partitions, and the lag of their groups.",
        tag="records",
        read=lambda d, _p, _q: [one.to_dict() for one in topics(d.deployment)],
        answer=LIST,
    ),
    Reading(
        name="listMessages",
        path="/topics/{topic}/messages",
        summary="List records of a topic, decoded, from an offset on, or the last ones; with a key, those of the key.",
        tag="records",
        read=_messages,
        parameters=(
            _one("partition", "A partition.", {"type": "integer", "minimum": 0, "maximum": 100_000}),
            _one("offset", "The first offset.", {"type": "integer", "minimum": 0, "maximum": 1 << 48}),
            _one("key", "The key of records."),
            _limit(20, 200),
        ),
    ),
    Reading(name="listSchedules", path="/schedules", summary="List schedules.", tag="schedules", read=_schedules),
    Reading(
        name="showSchedule",
        path="/schedules/{schedule}",
        summary="Show a schedule with its next firings.",
        tag="schedules",
        read=lambda d, p, _q: show_schedule(d.deployment, p["schedule"]).to_dict(),
    ),
    Reading(
        name="listExternalEvents",
        path="/external-events",
        summary="List external events that wait to be taken.",
        tag="runs",
        read=_external,
        answer=LIST,
    ),
    Reading(
        name="listHandlers",
        path="/handlers",
        summary="List the registered handlers.",
        tag="deployment",
        read=lambda d, _p, _q: [registered.as_document(one) for one in registered.handlers(d.deployment)],
        answer=LIST,
    ),
    Reading(
        name="listTasks",
        path="/tasks",
        summary="List tasks.",
        tag="deployment",
        read=lambda d, _p, q: registered.tasks(d.deployment, q.get("after", ""), q.get("state", "")).to_dict(),
        parameters=(_one("state", "In this state."), _AFTER),
        answer=_ITEMS,
    ),
    Reading(
        name="listLocks",
        path="/locks",
        summary="List locks.",
        tag="deployment",
        read=lambda d, _p, q: registered.locks(d.deployment, q.get("after", "")).to_dict(),
        parameters=(_AFTER,),
        answer=_ITEMS,
    ),
    Reading(
        name="listLogs",
        path="/logs",
        summary="List lines of the logs of runs.",
        tag="runs",
        read=lambda d, _p, q: registered.logs(d.deployment, q.get("after", ""), q.get("run", "")).to_dict(),
        parameters=(_one("run", "Of this run."), _AFTER),
        answer=_ITEMS,
    ),
    Reading(
        name="showSettings",
        path="/settings",
        summary="Show the settings, with secrets masked.",
        tag="deployment",
        read=lambda d, _p, _q: d.deployment.config.describe(),
    ),
)
