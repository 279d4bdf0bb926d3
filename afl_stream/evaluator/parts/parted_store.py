"""All parts of a store as one store, for reading, and for what an operator does to one workflow.

Each method has a route: to the part of the workflow that it is about, to all parts, or to the first, which keeps what
belongs to no workflow. What an evaluator alone may do has none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, cast

from afl.stores.public.persistence import EngineStore
from afl_stream.errors import StreamError

#: What a route does: the parts, the method's name and its arguments to its result.
Route = Callable[["PartedStore", str, tuple[Any, ...], dict[str, Any]], Any]


class NotOfAllParts(StreamError):
    """Something that only the evaluator of one part may do."""

    def __init__(self, name: str, location: str) -> None:
        super().__init__(f"{name} is for the evaluator of one part of a store, and {location} is all of its parts")


class PartedStore:
    """All parts of a store, each opened; see the routes below."""

    def __init__(self, parts: Sequence[EngineStore], index_of: Callable[[str], int]) -> None:
        """Take the opened parts, in order. `index_of` returns which of them a workflow, or a schedule, is in."""
        self.parts = tuple(parts)
        self.index_of = index_of

    def __getattr__(self, name: str) -> Callable[..., Any]:
        route = ROUTES.get(name)
        if route is None:
            raise AttributeError(name)
        return lambda *args, **named: route(self, name, args, named)

    def location(self) -> str:
        """Return where the parts are."""
        return ", ".join(part.location() for part in self.parts)

    def close(self) -> None:
        """Close all parts."""
        for part in self.parts:
            part.close()


def as_store(parts: Sequence[EngineStore], index_of: Callable[[str], int]) -> EngineStore:
    """Return the parts as one store."""
    return cast(EngineStore, PartedStore(parts, index_of))


def parts_within(store: EngineStore) -> Sequence[EngineStore]:
    """Return the parts of a store, each a store of its own; the store itself if it has only one."""
    return store.parts if isinstance(store, PartedStore) else (store,)


def _first_argument(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return args[0] if args else next(iter(named.values()))


def _to_part_of(id_in: Callable[[Any], str]) -> Route:
    """Route to the part of the workflow whose id is in the first argument."""

    def route(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        part = store.parts[store.index_of(id_in(_first_argument(args, named)))]
        return getattr(part, name)(*args, **named)

    return route


def _results(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    return [getattr(part, name)(*args, **named) for part in store.parts]


@cache
def _usual_limit(name: str) -> int | None:
    """Return the limit that a store has for a list where the caller names none; None: it has no limit."""
    parameter = inspect.signature(getattr(EngineStore, name)).parameters.get("limit")
    return None if parameter is None or parameter.default is parameter.empty else int(parameter.default)


def _listed(key: Callable[[Any], Any] | None = None, *, newest_first: bool = False) -> Route:
    """Route to all parts, and join their lists: in the order of `key`, and no more than `limit`.

    A longer list would be no page: the next one begins after its last entry, and of a part whose own list ended
    before that, entries would be passed over.
    """

    def route(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        found = list(chain.from_iterable(_results(store, name, args, named)))
        if key is not None:
            found.sort(key=key, reverse=newest_first)
        limit = named.get("limit", _usual_limit(name))
        return found if limit is None else found[:limit]

    return route


def _joined(join: Callable[[list[Any]], Any]) -> Route:
    """Route to all parts, and join their results."""
    return lambda store, name, args, named: join(_results(store, name, args, named))


def _of_ids(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Route a collection of workflow ids to all parts: each answers for its own, and the others find none."""
    ids = list(_first_argument(args, named))
    merged: dict[Any, Any] = {}
    for index, part in enumerate(store.parts):
        own = [one for one in ids if store.index_of(one) == index]
        if own:
            merged.update(getattr(part, name)(own))
    return merged


def _divided(
    join: Callable[[list[tuple[list[int], Any]]], Any], id_in: Callable[[Any], str] = str, *, upto: str = ""
) -> Route:
    """Route each of a sequence of ids, or of what has one, to its part, and join the parts' results.

    `join` takes each result with the places in the sequence that it is about. `upto` names an argument that limits
    what all parts count together.
    """

    def route(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given, rest = (args[0], named) if args else (named[next(iter(named))], dict(list(named.items())[1:]))
        given, results = list(given), []
        for index, part in enumerate(store.parts):
            places = [place for place, one in enumerate(given) if store.index_of(id_in(one)) == index]
            if places and not (upto and rest[upto] <= 0):
                found = getattr(part, name)([given[place] for place in places], **rest)
                results.append((places, found))
                if upto:
                    rest = {**rest, upto: rest[upto] - found}
        return join(results)

    return route


def _sum(found: list[tuple[list[int], Any]]) -> int:
    return sum(count for _, count in found)


def _chain(found: list[tuple[list[int], Any]]) -> list[Any]:
    return [one for _, ones in found for one in ones]


def _in_place(found: list[tuple[list[int], Any]]) -> list[Any]:
    """Return the results in the order of what was asked for."""
    by_place = {place: one for places, ones in found for place, one in zip(places, ones, strict=True)}
    return [by_place[place] for place in sorted(by_place)]


def _to_nothing(_found: list[tuple[list[int], Any]]) -> None:
    return None


def _first_found(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Route to one part after another, until one has it."""
    results = (getattr(part, name)(*args, **named) for part in store.parts)
    return next((found for found in results if found is not None), None)


def _to_first(store: PartedStore, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return getattr(store.parts[0], name)(*args, **named)


def _to_none(store: PartedStore, name: str, _args: tuple[Any, ...], _named: dict[str, Any]) -> Any:
    raise NotOfAllParts(name, store.location())


def _outbox(store: PartedStore, _name: str, _args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Return the waiting records of all parts, numbered so that a page goes on where the one before it ended."""
    count, after = len(store.parts), named.pop("after", 0)
    found = [
        row._replace(sequence=row.sequence * count + index)
        for index, part in enumerate(store.parts)
        for row in part.outbox(after=max(0, (after - index) // count), **named)
    ]
    return sorted(found)[: named.get("limit", 1_000)]


def _smallest(found: Iterable[Any]) -> Any:
    return min((one for one in found if one is not None), default=None)


def _union(found: Iterable[Any]) -> Any:
    return set().union(*found)


def _merged(found: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    return {key: value for one in found for key, value in one.items()}


def _own_checks(found: Sequence[Any]) -> Any:
    joined = {field: tuple(chain.from_iterable(getattr(one, field) for one in found)) for field in found[0]._fields}
    return found[0]._replace(**joined)


def _workflow_of_step(step_id: str) -> str:
    return step_id.partition(":")[0]


def _each(route: Route, names: str) -> dict[str, Route]:
    return dict.fromkeys(names.split(), route)


#: Where each method goes. tests/unit/stream/evaluator/test_parted_store.py compares them with the port.
ROUTES: Final[Mapping[str, Route]] = {
    **_each(
        _to_part_of(str),
        """
        examine_steps get_history get_steps_by_workflow get_waiting_events get_workflow_root history load_open load_run
        load_steps load_workflow schedule timers_of tombstone
        """,
    ),
    **_each(
        _to_part_of(_workflow_of_step),
        "examine_step get_blocks_by_step get_event get_step get_steps_by_container load_step",
    ),
    "save_tombstone": _to_part_of(lambda tombstone: tombstone.workflow_id),
    "bury": _divided(_in_place, lambda burial: burial.tombstone.workflow_id),
    "delete_rows": _divided(_sum, upto="limit"),
    "delete_tombstones": _divided(_sum),
    "load_workflows": _divided(_chain),
    "mark_purged": _divided(_to_nothing),
    **_each(_of_ids, "history_sizes pending_events revisions"),
    "list_workflows": _listed(lambda row: (row.created_at_ms, row.id), newest_first=True),
    "find_workflows": _listed(lambda row: (row.created_at_ms, row.id), newest_first=True),
    "workflow_heads": _listed(lambda head: head.updated_at_ms, newest_first=True),
    "workflow_ids": _listed(str),
    "ended_workflows": _listed(tuple),
    "unfinished_workflows": _listed(tuple),
    "early_workflows": _listed(lambda early: early.workflow_id),
    "examine": _listed(lambda entry: entry.key),
    "schedules": _listed(lambda row: row.id),
    "schedules_due": _listed(lambda row: (row.next_at_ms, row.id)),
    "timers_due": _listed(lambda row: (row.due_at_ms, row.step_id)),
    **_each(
        _listed(),
        """
        get_all_servers get_steps_by_block get_steps_by_state lanes orphans parked parked_due parked_heads
        parked_workflows program_uses runnable_workflows tombstones
        """,
    ),
    "outbox": _outbox,
    **_each(_joined(_union), "known_events waiting_keys"),
    "program_fingerprints": _joined(lambda found: sorted(_union(found))),
    "positions": _joined(_merged),
    **_each(_joined(any), "give_back step_exists"),
    "check_itself": _joined(_own_checks),
    **_each(_joined(_smallest), "next_schedule_ms next_timer_ms"),
    **_each(_first_found, "get_server load_annotations load_program"),
    **_each(
        _to_first,
        """
        acquire_lock check_lock claim_task delete_handler_registration end_task extend_lock get_handler_registration
        get_logs_by_runner get_pending_tasks get_runner get_runners_by_state get_task give_task_back leased_tasks
        list_handler_registrations pending_task_names prefix release_lock renew_leases requeue_expired_tasks
        save_handler_registration save_log save_runner save_server save_task update_server_ping
        """,
    ),
    **_each(_to_none, "add_mark commit commit_batch identity parked_usage renew_identity save_event save_step"),
    **_each(_to_none, "stage_batch"),
}
