"""Place boxes in layers, so that arrows lead from one layer to a later one with few crossings.

An arrow that leads to an earlier box, as one of each cycle does, is placed as if it led the other way.

The usual four steps: layers by the longest path, a stand-in in every layer that an arrow passes, an order in the layers
by the mean of the neighbours, and places as near to the neighbours as the order allows. Lengths are in pixels; `across`
is the direction of a layer, `along` that of the arrows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TypeAlias
from zlib import crc32

#: The room between boxes of a layer, and the room for an arrow that passes them.
GAP_ACROSS = 22.0
GAP_ALONG = 42.0
WIDEST_GAP = 150.0
#: The distance of a small box from the beginning of a layer that a large box makes deep.
INDENT = 14.0
LANE = 10.0

_SWEEPS = 12
#: Orders that a picture with cycles is tried from, up to so many boxes and passed places.
_TRIES = 12
_MOST_TRIED = 300

#: A box, or the place where an arrow between two boxes passes a layer.
Key: TypeAlias = str | tuple[str, str, int]
Size: TypeAlias = tuple[float, float]


@dataclass(slots=True)
class Layers:
    """The places of the boxes of one frame: near corner of each, the size of all, and the points that arrows pass."""

    places: dict[str, tuple[float, float]] = field(default_factory=dict)
    size: Size = (0.0, 0.0)
    #: Points as (across, along), by the arrow's ends; two for each passed layer, from the first layer to the last.
    routes: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    #: The depth of each layer, where it ends along, and the layer of each box.
    depths: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    layer_of: dict[str, int] = field(default_factory=dict)
    #: The arrows that lead to an earlier box.
    backward: set[tuple[str, str]] = field(default_factory=set)

    def is_apart(self, ends: tuple[str, str]) -> bool:
        """Say whether two boxes are in different layers."""
        return self.layer_of[ends[0]] != self.layer_of[ends[1]]


def place(
    sizes: Mapping[str, Size], arrows: Iterable[tuple[str, str]], first: Iterable[str] = (), last: Iterable[str] = ()
) -> Layers:
    """Place boxes, given as (across, along) in reading order, and the ways of the arrows between them.

    The boxes that `first` and `last` name go into the first and the last layer, where arrows come in and go out.
    """
    number = {key: position for position, key in enumerate(sizes)}
    links = {(a, b): (a, b) if number[a] < number[b] else (b, a) for a, b in arrows if a != b}
    drawn = sorted(links, key=lambda arrow: (number[links[arrow][0]], number[links[arrow][1]], arrow != links[arrow]))
    rank = _ranks(sizes, [links[arrow] for arrow in drawn])
    rank.update(dict.fromkeys(first, 0))
    rank.update(dict.fromkeys(last, max(rank.values(), default=0)))
    rows: list[list[Key]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for key in sizes:
        rows[rank[key]].append(key)
    before: dict[Key, list[Key]] = defaultdict(list)
    after: dict[Key, list[Key]] = defaultdict(list)
    for arrow in drawn:
        upper, lower = links[arrow]
        # An end in the layer of its own box would only take room.
        if rank[upper] == rank[lower]:
            continue
        chain: list[Key] = [upper]
        for row in range(rank[upper] + 1, rank[lower]):
            chain.append((*arrow, row))
            rows[row].append(chain[-1])
        chain.append(lower)
        for a, b in pairwise(chain):
            after[a].append(b)
            before[b].append(a)
    _order(rows, before, after)
    backward = {arrow for arrow, link in links.items() if arrow != link}
    if backward:
        _improve(rows, before, after)
    widths = {key: sizes[key][0] if isinstance(key, str) else LANE for row in rows for key in row}
    centres = _centres(rows, widths, before, after)
    layers = _measured(rows, sizes, widths, centres, after)
    layers.backward = backward
    return layers


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


def _improve(rows: list[list[Key]], before: Mapping[Key, list[Key]], after: Mapping[Key, list[Key]]) -> None:
    """Reorder the rows of a picture with cycles in place, where that leaves fewer crossings.

    An arrow back often crosses arrows beside it, in an order that the means do not leave. So they start from other
    orders as well, the same ones each time.
    """
    _swap(rows, after)
    fewest = _crossings(rows, after)
    for seed in range(_TRIES if sum(map(len, rows)) <= _MOST_TRIED else 0):
        if fewest == 0:
            break
        shuffled = [sorted(row, key=lambda key, seed=seed: crc32(f"{seed} {key}".encode())) for row in rows]  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        _order(shuffled, before, after)
        _swap(shuffled, after)
        crossings = _crossings(shuffled, after)
        if crossings < fewest:
            rows[:], fewest = shuffled, crossings


def _swap(rows: list[list[Key]], after: Mapping[Key, list[Key]]) -> None:
    """Swap neighbours of a row in place, as long as that leaves fewer crossings."""
    for _ in range(_SWEEPS):
        is_better = False
        for number, row in enumerate(rows):
            around = rows[max(number - 1, 0) : number + 2]
            fewest = _crossings(around, after)
            for at in range(len(row) - 1):
                if fewest == 0:
                    break
                row[at : at + 2] = row[at + 1], row[at]
                crossings = _crossings(around, after)
                if crossings < fewest:
                    fewest, is_better = crossings, True
                else:
                    row[at : at + 2] = row[at + 1], row[at]
        if not is_better:
            break


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


def reading_order(keys: Iterable[str], arrows: Iterable[tuple[str, str]]) -> list[str]:
    """Return boxes in an order in which arrows lead to later ones, but for those that close a cycle.

    An arrow closes one when it leads to a box on the way to its own: the ways begin at the first of `keys`.
    """
    after: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in arrows:
        after[source].append(target)
    number: dict[str, int] = {}
    waits_for = dict.fromkeys(after, 0)
    forward: dict[str, list[str]] = {key: [] for key in after}
    for root in after:
        path = [(root, iter(after[root]))] if root not in number else []
        number.setdefault(root, len(number))
        on_path = {root}
        while path:
            key, left = path[-1]
            for target in left:
                if target in on_path:
                    continue
                forward[key].append(target)
                waits_for[target] += 1
                if target not in number:
                    number[target] = len(number)
                    on_path.add(target)
                    path.append((target, iter(after[target])))
                    break
            else:
                path.pop()
                on_path.discard(key)
    ready = [(number[key], key) for key in after if waits_for[key] == 0]
    heapify(ready)
    order: list[str] = []
    while ready:
        order.append(heappop(ready)[1])
        for target in forward[order[-1]]:
            waits_for[target] -= 1
            if waits_for[target] == 0:
                heappush(ready, (number[target], target))
    return order
