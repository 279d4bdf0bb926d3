"""Place boxes in layers, so that arrows lead from one layer to a later one with few crossings.

The usual four steps: layers by the longest path, a stand-in in every layer that an arrow passes, an order in the layers
by the mean of the neighbours, and places as near to the neighbours as the order allows. Lengths are in pixels; `across`
is the direction of a layer, `along` that of the arrows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

#: The room between boxes of a layer, and the room for an arrow that passes them.
GAP_ACROSS = 22.0
GAP_ALONG = 42.0
WIDEST_GAP = 150.0
#: The distance of a small box from the beginning of a layer that a large box makes deep.
INDENT = 14.0
LANE = 10.0

_SWEEPS = 12

#: A box, or the place where an arrow between two boxes passes a layer.
Key: TypeAlias = str | tuple[str, str, int]
Size: TypeAlias = tuple[float, float]


@dataclass(slots=True)
class Layers:
    """The places of the boxes of one frame: near corner of each, the size of all, and the points that arrows pass."""

    places: dict[str, tuple[float, float]] = field(default_factory=dict)
    size: Size = (0.0, 0.0)
    #: Points as (across, along), by the arrow's ends; two for each passed layer.
    routes: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    #: The depth of each layer, where it ends along, and the layer of each box.
    depths: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    layer_of: dict[str, int] = field(default_factory=dict)

    def is_apart(self, ends: tuple[str, str]) -> bool:
        """Say whether two boxes are in different layers."""
        return self.layer_of[ends[0]] != self.layer_of[ends[1]]


def place(
    sizes: Mapping[str, Size], arrows: Iterable[tuple[str, str]], first: Iterable[str] = (), last: Iterable[str] = ()
) -> Layers:
    """Place boxes, given as (across, along) in reading order. Arrows lead to later boxes only.

    The boxes that `first` and `last` name go into the first and the last layer, where arrows come in and go out.
    """
    number = {key: position for position, key in enumerate(sizes)}
    ahead = {(a, b) for a, b in arrows if number[a] < number[b]}
    forward = sorted(ahead, key=lambda pair: (number[pair[0]], number[pair[1]]))
    rank = _ranks(sizes, forward)
    rank.update(dict.fromkeys(first, 0))
    rank.update(dict.fromkeys(last, max(rank.values(), default=0)))
    # An end in the layer of its own box would only take room.
    forward = [(a, b) for a, b in forward if rank[a] < rank[b]]
    rows: list[list[Key]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for key in sizes:
        rows[rank[key]].append(key)
    before: dict[Key, list[Key]] = defaultdict(list)
    after: dict[Key, list[Key]] = defaultdict(list)
    for source, target in forward:
        chain: list[Key] = [source]
        for row in range(rank[source] + 1, rank[target]):
            chain.append((source, target, row))
            rows[row].append(chain[-1])
        chain.append(target)
        for a, b in pairwise(chain):
            after[a].append(b)
            before[b].append(a)
    _order(rows, before, after)
    widths = {key: sizes[key][0] if isinstance(key, str) else LANE for row in rows for key in row}
    centres = _centres(rows, widths, before, after)
    return _measured(rows, sizes, widths, centres, after)


def _ranks(sizes: Mapping[str, Size], arrows: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the layer of each box: behind all boxes that it needs.

    A box that needs nothing goes just before the boxes that need it.
    """
    rank = dict.fromkeys(sizes, 0)
    wanted_by: dict[str, list[str]] = defaultdict(list)
    for source, target in arrows:
        wanted_by[source].append(target)
    for key in sizes:
        for target in wanted_by.get(key, ()):
            rank[target] = max(rank[target], rank[key] + 1)
    targets = {target for _, target in arrows}
    for key, users in wanted_by.items():
        if key not in targets:
            rank[key] = min(rank[target] for target in users) - 1
    return rank


def _order(rows: list[list[Key]], before: Mapping[Key, list[Key]], after: Mapping[Key, list[Key]]) -> None:
    """Reorder the rows in place; of all tried orders, the one with the fewest crossings stays."""
    best, fewest = [list(row) for row in rows], _crossings(rows, after)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        downward = sweep % 2 == 0
        neighbours = before if downward else after
        for number in range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1):
            fixed = {key: position for position, key in enumerate(rows[number - 1 if downward else number + 1])}
            at = {key: position for position, key in enumerate(rows[number])}
            rows[number].sort(
                key=lambda key, fixed=fixed, at=at: (  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
                    sum(fixed[item] for item in neighbours.get(key, ())) / len(neighbours[key])
                    if neighbours.get(key)
                    else at[key]
                )
            )
        crossings = _crossings(rows, after)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    rows[:] = best


def _crossings(rows: Sequence[Sequence[Key]], after: Mapping[Key, list[Key]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        position = {key: number for number, key in enumerate(lower)}
        seen: list[int] = []
        for key in upper:
            for end in sorted(position[target] for target in after.get(key, ())):
                # The arrows before it that end behind it.
                at = bisect_right(seen, end)
                total += len(seen) - at
                seen.insert(at, end)
    return total


def _centres(
    rows: Sequence[Sequence[Key]],
    widths: Mapping[Key, float],
    before: Mapping[Key, list[Key]],
    after: Mapping[Key, list[Key]],
) -> dict[Key, float]:
    """Return the centre of everything across: each row in turn moves to the mean of its neighbours."""
    centres: dict[Key, float] = {}
    for row in rows:
        at = 0.0
        for key in row:
            centres[key] = at + widths[key] / 2
            at += widths[key] + GAP_ACROSS
        for key in row:
            centres[key] -= at / 2
    for sweep in range(_SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for row in rows if sweep % 2 == 0 else list(reversed(rows)):
            wanted = []
            for key in row:
                # The last sweeps look both ways, so that the picture does not lean to one side.
                near = [*before.get(key, ()), *after.get(key, ())] if sweep >= _SWEEPS - 2 else neighbours.get(key, ())
                wanted.append(sum(centres[item] for item in near) / len(near) if near else centres[key])
            for key, centre in zip(row, _apart(wanted, [widths[key] for key in row]), strict=True):
                centres[key] = centre
    return centres


def _apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return centres as near to the wanted ones as possible (least squares), in the same order and without overlap.

    After subtracting the room to the left this is a monotonic regression: overlapping neighbours are pooled.
    """
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2 + GAP_ACROSS)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while pools and pools[-1][0] > mean:
            former, size = pools.pop()
            mean, count = (mean * count + former * size) / (count + size), count + size
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=False)]


def _measured(
    rows: Sequence[Sequence[Key]],
    sizes: Mapping[str, Size],
    widths: Mapping[Key, float],
    centres: Mapping[Key, float],
    after: Mapping[Key, list[Key]],
) -> Layers:
    done = Layers()
    left = min((centres[key] - widths[key] / 2 for key in widths), default=0.0)
    right = max((centres[key] + widths[key] / 2 for key in widths), default=0.0)
    along = gap = 0.0
    for number, row in enumerate(rows):
        depth = max((sizes[key][1] for key in row if isinstance(key, str)), default=0.0)
        for key in row:
            if isinstance(key, str):
                done.layer_of[key] = number
                done.places[key] = (
                    centres[key] - widths[key] / 2 - left,
                    along + min((depth - sizes[key][1]) / 2, INDENT),
                )
            else:
                passed = done.routes.setdefault(key[:2], [])
                passed += [(centres[key] - left, along), (centres[key] - left, along + depth)]
        done.depths.append(depth)
        done.ends.append(along + depth)
        # Arrows that lead far to the side get more room.
        aside = max((abs(centres[end] - centres[key]) for key in row for end in after.get(key, ())), default=0.0)
        gap = min(max(GAP_ALONG, aside / 7), WIDEST_GAP)
        along += depth + gap
    done.size = (right - left, max(along - gap, 0.0))
    return done
