"""A run's steps as lines of a tree that fits a page: many are folded, and what failed or waits stays in sight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from afl_stream.visibility.runs import StepDetail

#: Lines of a page, children of a step that are shown in it, and those of the step that a page is about.
MOST_LINES: Final = 150
_FEW: Final = 20
MOST_OF_FOCUS: Final = 100
#: Of the children that are not shown, how many that failed or wait are shown all the same.
_IN_SIGHT: Final = 5
_CALM: Final = frozenset({"complete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLine:
    """One line: a step, or what is folded at this place.

    `step` None: the line stands for `hidden` steps of `parent`, from its child number `first` on, by status in
    `counts`.
    """

    depth: int
    step: StepDetail | None = None
    #: Steps below the step that are not on this page.
    hidden: int = 0
    parent: str = ""
    first: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


class StepIndex:
    """The steps of a run by id, with what is below each."""

    def __init__(self, root: StepDetail | None) -> None:
        self.root = root
        self.by_id: dict[str, StepDetail] = {}
        self.parents: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        if root is not None:
            self._take(root)

    def _take(self, root: StepDetail) -> None:
        order: list[StepDetail] = []
        left = [root]
        while left:
            step = left.pop()
            order.append(step)
            for child in step.children:
                self.parents[child.step_id] = step.step_id
                left.append(child)
        for step in reversed(order):
            self.sizes[step.step_id] = sum(1 + self.sizes[child.step_id] for child in step.children)
            self.by_id[step.step_id] = step
        self.counts.update(step.status for step in order if step is not root)

    def way_to(self, step_id: str) -> list[StepDetail]:
        """Return the steps around a step, the outermost first."""
        found: list[StepDetail] = []
        at = self.parents.get(step_id)
        while at is not None:
            found.append(self.by_id[at])
            at = self.parents.get(at)
        return found[::-1]

    def with_status(self, status: str, first: int, most: int) -> tuple[list[StepDetail], int]:
        """Return the steps in a status from the first of a page on, in order of creation, and how many there are."""
        root = self.root
        found = [] if root is None else [step for _, step in root.walk() if step is not root and step.status == status]
        return found[first : first + most], len(found)


def tree_lines(index: StepIndex, focus: StepDetail, first: int = 0) -> list[TreeLine]:
    """Return the lines below a step, whose children are shown from number `first` on."""
    lines: list[TreeLine] = []
    if first:
        lines.append(_fold(0, focus.step_id, max(first - MOST_OF_FOCUS, 0), focus.children[:first]))
    _add(index, focus.step_id, focus.children, first, 0, MOST_OF_FOCUS, lines)
    return lines


def _add(
    index: StepIndex,
    parent: str,
    children: Sequence[StepDetail],
    first: int,
    depth: int,
    most: int,
    lines: list[TreeLine],
) -> None:
    end = first + most if len(children) - first > most + 1 else len(children)
    for child in children[first:end]:
        _add_step(index, child, depth, lines)
    rest = children[end:]
    if not rest:
        return
    in_sight = [child for child in rest if child.status not in _CALM][:_IN_SIGHT] if depth or first == 0 else []
    lines.append(_fold(depth, parent, end, rest))
    for child in in_sight:
        lines.append(TreeLine(depth=depth, step=child, hidden=index.sizes[child.step_id]))


def _add_step(index: StepIndex, step: StepDetail, depth: int, lines: list[TreeLine]) -> None:
    size = index.sizes[step.step_id]
    is_full = len(lines) >= MOST_LINES
    lines.append(TreeLine(depth=depth, step=step, hidden=size if is_full else 0))
    if size and not is_full:
        _add(index, step.step_id, step.children, 0, depth + 1, _FEW, lines)


def _fold(depth: int, parent: str, first: int, folded: Iterable[StepDetail]) -> TreeLine:
    counts = Counter(step.status for step in folded)
    return TreeLine(depth=depth, hidden=sum(counts.values()), parent=parent, first=first, counts=counts)
