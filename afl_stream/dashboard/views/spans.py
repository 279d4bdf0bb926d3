"""A run's steps as bars along its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl_stream.dashboard.views.run_views import RunView
from afl_stream.dashboard.views.state_words import state_of
from afl_stream.visibility.runs import StepDetail

#: Bars of a picture. Steps that took longest, failed or wait are shown before others.
MOST_SPANS: Final = 60
#: The width of the picture in its own units.
WIDTH: Final = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A step's bar: where it begins and how long it is, in thousandths of the run. `is_open`: its end is not known."""

    step: StepDetail
    depth: int
    start: float
    width: float
    state: str
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The bars of a run, and its beginning and end. `left_out`: steps without a bar."""

    spans: list[Span]
    begin_ms: int
    end_ms: int
    left_out: int


def spans_of(view: RunView, now_ms: int) -> Spans:
    """Return the bars of a run: all, or the ones to look at first, in order of creation."""
    begin_ms = view.detail.row.created_at_ms
    end_ms = max(view.detail.row.ended_at_ms or now_ms, begin_ms + 1)
    steps = view.detail.steps()[1:]

    def weight(step: StepDetail) -> tuple[bool, int]:
        return state_of(step.status) != "complete", step.duration_ms or 0

    chosen = {id(step) for _, step in sorted(steps, key=lambda one: weight(one[1]), reverse=True)[:MOST_SPANS]}
    spans = []
    for depth, step in steps:
        if id(step) not in chosen:
            continue
        ended_ms = step.ended_at_ms
        is_open = ended_ms is None
        if ended_ms is None:
            # One that is done ended at some time that nothing tells: a bar without a length.
            ended_ms = end_ms if state_of(step.status) in ("running", "waiting") else step.created_at_ms
        share = WIDTH / (end_ms - begin_ms)
        start = min(max((step.created_at_ms - begin_ms) * share, 0.0), WIDTH)
        width = min(max((ended_ms - step.created_at_ms) * share, 3.0), max(WIDTH - start, 3.0))
        spans.append(
            Span(step=step, depth=depth, start=start, width=width, state=state_of(step.status), is_open=is_open)
        )
    return Spans(spans=spans, begin_ms=begin_ms, end_ms=end_ms, left_out=len(steps) - len(spans))
