"""The pages about runs: the list, and one run with its steps, graph, timeline, records, and why it waits."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from afl.core.trace_context import trace_id_of
from afl_stream.dashboard.context import dashboard_of
from afl_stream.dashboard.pages.rendering import page
from afl_stream.dashboard.views.graphs import picture_of_run
from afl_stream.dashboard.views.parameters import choice_of, whole_number
from afl_stream.dashboard.views.run_lists import place_of_search, run_list
from afl_stream.dashboard.views.run_views import RunView
from afl_stream.dashboard.views.spans import spans_of
from afl_stream.dashboard.views.state_words import state_of
from afl_stream.dashboard.views.tree_lines import MOST_OF_FOCUS, TreeLine, tree_lines
from afl_stream.visibility.choosing import STATES
from afl_stream.visibility.runs import StepDetail

#: Steps of a page of a flat list, and lines of a page of a timeline.
_PAGE: Final = 100
_LINES: Final = 300


def root_page(_request: Request) -> Response:
    """Show the runs first."""
    return RedirectResponse("/runs", status_code=307)


def runs_page(request: Request) -> Response:
    """Show the runs that fit the filters of the url, newest first."""
    dashboard = dashboard_of(request)
    choice = choice_of(request.query_params)
    if not dashboard.deployment.has_store():
        return page(request, "empty.html", title="Runs", what="runs")
    after = request.query_params.get("after") or None
    limit = whole_number(request.query_params, "limit", default=50, low=1, high=500)
    found = run_list(dashboard.deployment, choice, after=after, limit=limit)
    return page(request, "runs.html", title="Runs", choice=choice, found=found, states=STATES, after=after, limit=limit)


def search_page(request: Request) -> Response:
    """Lead to the run whose id begins so, or to the runs with this text in their failure or this workflow."""
    dashboard = dashboard_of(request)
    text = request.query_params.get("q", "").strip()
    return RedirectResponse(place_of_search(dashboard.deployment, text), status_code=303)


def run_page(request: Request) -> Response:
    """Show a run and its steps as a tree; `at` is the step whose children are shown, `status` a flat list instead."""
    view = dashboard_of(request).runs.view(request.path_params["workflow_id"])
    query = request.query_params
    first = whole_number(query, "from", default=0, low=0, high=10_000_000)
    status, statement = query.get("status", ""), query.get("statement", "")
    focus = view.index.by_id.get(query.get("at", "")) or view.index.root
    lines: list[TreeLine] = []
    flat: list[StepDetail] = []
    total = 0
    if status:
        flat, total = view.index.with_status(status, first, _PAGE)
    elif statement:
        flat, total = _of_statement(view, statement, first)
    elif focus is not None:
        lines = tree_lines(view.index, focus, first)
    way = [] if focus is None or focus is view.index.root else view.index.way_to(focus.step_id)
    return page(
        request,
        "run.html",
        title=view.detail.summary.workflow,
        tab="steps",
        view=view,
        focus=focus,
        way=way,
        lines=lines,
        flat=flat,
        total=total,
        first=first,
        page_size=_PAGE,
        focus_size=MOST_OF_FOCUS,
        status=status,
        statement=statement,
        **_head(request, view),
    )


def step_page(request: Request) -> Response:
    """Show one step of a run."""
    dashboard = dashboard_of(request)
    view = dashboard.runs.view(request.path_params["workflow_id"])
    step_id = request.path_params["step_id"]
    step = view.index.by_id.get(step_id)
    if step is None:
        return page(request, "error.html", status_code=404, title="No such step", text=f"run has no step {step_id} now")
    problem = ""
    if step.attempt and request.query_params.get("topics") != "no":
        view, problem = dashboard.runs.with_records(view.workflow_id)
        step = view.index.by_id.get(step_id, step)
    places = view.places()
    place, source = view.error_lines(step.error)
    events = [] if view.detail.records is None else [e for e in view.detail.records.events if e.step_id == step_id]
    return page(
        request,
        "step.html",
        title=step.label,
        tab="steps",
        view=view,
        step=step,
        way=view.index.way_to(step_id),
        path_in_run=places.path_of(step_id),
        call_place=places.place_of(step_id),
        error_place=place,
        error_source=source,
        events=events,
        problem=problem,
        is_waiting=step.status.startswith("waits for an answer"),
        **{**_head(request, view), "is_step": True},
    )


def graph_page(request: Request) -> Response:
    """Show the graph of a run's program with the states of its steps."""
    view = dashboard_of(request).runs.view(request.path_params["workflow_id"])
    query = request.query_params
    picture = picture_of_run(view, query.get("facet", ""), query.get("at", ""))
    return page(
        request,
        "run_graph.html",
        title=view.detail.summary.workflow,
        tab="graph",
        view=view,
        picture=picture,
        **_head(request, view),
    )


def timeline_page(request: Request) -> Response:
    """Show what happened to a run in order of time, and its steps as bars."""
    dashboard = dashboard_of(request)
    view, problem = dashboard.runs.with_records(request.path_params["workflow_id"])
    first = whole_number(request.query_params, "from", default=0, low=0, high=10_000_000)
    transitions = dashboard.runs.timeline(view)
    return page(
        request,
        "run_timeline.html",
        title=view.detail.summary.workflow,
        tab="timeline",
        view=view,
        problem=problem,
        spans=spans_of(view, dashboard.deployment.clock.now_ms()),
        transitions=transitions[first : first + _LINES],
        total=len(transitions),
        first=first,
        page_size=_LINES,
        **_head(request, view),
    )


def records_page(request: Request) -> Response:
    """Show the events and answers of a run in their topics: who answered, and where that stands."""
    view, problem = dashboard_of(request).runs.with_records(request.path_params["workflow_id"])
    first = whole_number(request.query_params, "from", default=0, low=0, high=10_000_000)
    records = [] if view.detail.records is None else view.detail.records.in_order()
    return page(
        request,
        "run_records.html",
        title=view.detail.summary.workflow,
        tab="records",
        view=view,
        problem=problem,
        records=records[first : first + _LINES],
        gaps=() if view.detail.records is None else view.detail.records.gaps,
        labels={step_id: step.label for step_id, step in view.index.by_id.items()},
        total=len(records),
        first=first,
        page_size=_LINES,
        **_head(request, view),
    )


def why_page(request: Request) -> Response:
    """Show what a run waits for, since when, and what would help."""
    dashboard = dashboard_of(request)
    view = dashboard.runs.view(request.path_params["workflow_id"])
    report = dashboard.runs.why(view.workflow_id)
    return page(
        request,
        "run_why.html",
        title=view.detail.summary.workflow,
        tab="why",
        view=view,
        report=report,
        **_head(request, view),
    )


def _head(request: Request, view: RunView) -> dict[str, Any]:
    """Return what the top of each page of a run shows."""
    place, source = view.error_lines(view.detail.row.error)
    waiting = sum(count for status, count in view.index.counts.items() if state_of(status) == "waiting")
    row = view.detail.row
    trace_id = trace_id_of(row.id, row.trace_context)
    link = dashboard_of(request).deployment.config.dashboard.trace_link(trace_id)
    return {
        "run_place": place,
        "run_source": source,
        "waiting_count": waiting,
        "is_step": False,
        "trace_id": trace_id if row.trace_context or link else "",
        "trace_link": link,
    }


def _of_statement(view: RunView, statement: str, first: int) -> tuple[list[StepDetail], int]:
    ids = [document.id for document in view.detail.documents if document.statement_id == statement]
    steps = [view.index.by_id[step_id] for step_id in ids if step_id in view.index.by_id]
    return steps[first : first + _PAGE], len(steps)
