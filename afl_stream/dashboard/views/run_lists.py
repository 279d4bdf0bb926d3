"""The list of runs, and the way from what a person types to a run."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from afl.compiled.program import Kind
from afl.core.errors import AFLError
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.views.choices import RunChoice, filter_of
from afl_stream.visibility.programs import declared_names
from afl_stream.visibility.workflows import NoSuchWorkflow, WorkflowPage, full_id, list_workflows


def run_list(deployment: Deployment, choice: RunChoice, *, after: str | None, limit: int) -> WorkflowPage:
    """Return a page of the runs that fit. Raises BadParameter, NoSuchProgram, NoSuchWorkflow for an unknown `after`."""
    store, now_ms = deployment.store, deployment.clock.now_ms()
    return list_workflows(store, filter_of(store, choice, now_ms), after=after, limit=limit, now_ms=now_ms)


def place_of_search(deployment: Deployment, text: str) -> str:
    """Return the path of what a text means: the run whose id begins so, a workflow's runs, or a failure's text."""
    if not text or not deployment.has_store():
        return "/runs"
    if "=" in text:
        return f"/runs?{urlencode({'input': text})}"
    store = deployment.store
    try:
        return f"/runs/{quote(full_id(store, text.partition(':')[0]), safe='')}"
    except NoSuchWorkflow:
        pass
    except AFLError:
        return f"/runs?{urlencode({'error': text})}"
    name = "workflow" if declared_names(store, text, (Kind.WORKFLOW,)) else ""
    if not name:
        name = "facet" if declared_names(store, text, (Kind.FACET, Kind.EVENT_FACET)) else "error"
    return f"/runs?{urlencode({name: text})}"
