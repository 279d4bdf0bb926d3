"""One run as its pages show it: read once for a revision, and kept while others look at the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from afl.core.errors import AFLError
from afl.engine.model.store import ErrorRecord
from afl.output.source_places import SourcePlace, find_place, lines_at, source_text
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.views.tree_lines import StepIndex
from afl_stream.transport import Transport
from afl_stream.visibility.records import RunRecordReader
from afl_stream.visibility.runs import RunDetail, show_workflow
from afl_stream.visibility.timeline import Transition, timeline_of
from afl_stream.visibility.waiting.explaining import explain
from afl_stream.visibility.waiting.report import WaitReport
from afl_stream.visibility.waiting.step_places import StepPlaces
from afl_stream.visibility.workflows import full_id

#: Runs that are kept, and the most steps that they may have together.
_MOST_RUNS: Final = 8
_MOST_STEPS: Final = 50_000
#: How long the topics may take to be read for a page.
RECORDS_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, and its steps by id."""

    detail: RunDetail
    index: StepIndex

    @property
    def workflow_id(self) -> str:
        return self.detail.row.id

    def places(self) -> StepPlaces:
        """Return where the calls of its steps stand in AFL."""
        return StepPlaces(self.detail.row.name, self.detail.documents, self.detail.program, self.detail.plan)

    def error_lines(self, error: ErrorRecord | None) -> tuple[SourcePlace | None, list[str]]:
        """Return where a failure stands in AFL, and the line with a mark below it, if its file is here unchanged."""
        program = self.detail.program
        if error is None or program is None:
            return None, []
        place = find_place(program, error.path, error.facet, error.line)
        return place, [] if place is None else lines_at(place, source_text(place))


class RunViews:
    """Reads runs for pages. Any thread may use it."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._kept: OrderedDict[tuple[str, int], RunView] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, workflow_id: str) -> RunView:
        """Return a run without what the topics hold of it. Raises NoSuchWorkflow, and the store's errors."""
        store = self._deployment.store
        workflow_id = full_id(store, workflow_id)
        revision = store.revisions([workflow_id]).get(workflow_id, 0)
        with self._lock:
            kept = self._kept.get((workflow_id, revision))
            if kept is not None:
                self._kept.move_to_end((workflow_id, revision))
        if kept is not None and kept.detail.row.ended_at_ms:
            return kept
        if kept is not None:
            # How long it has taken is of now.
            detail = kept.detail
            took_ms = max(self._deployment.clock.now_ms() - detail.row.created_at_ms, 0)
            return RunView(replace(detail, summary=replace(detail.summary, duration_ms=took_ms)), kept.index)
        detail = show_workflow(store, workflow_id, now_ms=self._deployment.clock.now_ms())
        view = RunView(detail, StepIndex(detail.root))
        self._keep((workflow_id, detail.row.revision), view)
        return view

    def _keep(self, key: tuple[str, int], view: RunView) -> None:
        with self._lock:
            self._kept[key] = view
            while len(self._kept) > 1 and (
                len(self._kept) > _MOST_RUNS
                or sum(len(one.detail.documents) for one in self._kept.values()) > _MOST_STEPS
            ):
                self._kept.popitem(last=False)

    def with_records(self, workflow_id: str) -> tuple[RunView, str]:
        """Return a run with what the topics hold of it, and why they could not be read; "" where they were.

        Raises as `view`.
        """
        store = self._deployment.store
        with opened(self._deployment) as (transport, problem):
            reader = None
            if transport is not None:
                reader = RunRecordReader(self._deployment.config, transport, timeout_s=RECORDS_S)
            detail = show_workflow(store, workflow_id, reader, now_ms=self._deployment.clock.now_ms())
        return RunView(detail, StepIndex(detail.root)), problem

    def timeline(self, view: RunView) -> list[Transition]:
        """Return what happened to a run, in order of time."""
        return timeline_of(self._deployment.store, view.detail)

    def why(self, workflow_id: str) -> WaitReport:
        """Return what a run waits for. Raises UnknownRun, NoSuchWorkflow where several are meant."""
        store = self._deployment.store
        with opened(self._deployment) as (transport, problem):
            unknown = (f"where events are and who reads them: {problem}",) if problem else ()
            return explain(self._deployment.config, workflow_id, store=store, transport=transport, unknown=unknown)


@contextmanager
def opened(deployment: Deployment) -> Iterator[tuple[Transport | None, str]]:
    """Yield the broker of a deployment, or None and in words why it cannot be reached now."""
    with ExitStack() as stack:
        transport, problem = None, ""
        try:
            transport = stack.enter_context(deployment.transport())
        except AFLError as error:
            problem = str(error)
        yield transport, problem
