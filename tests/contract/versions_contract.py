"""The three versions of everything that a store keeps: written with each artifact, and looked at when it is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.entities import HandlerRegistration, LogDefinition, ServerDefinition
from afl.engine.model.store import Batch
from afl.engine.versions import VERSIONS
from afl.stores.maintenance.purge import tombstone_of
from afl.stores.public.persistence import EventDefinition
from tests.contract.store_rows import WholeStore, change, runner, step_document, task, workflow_row

#: Every kind of artifact, by the table or collection that it stands in, and what reads one.
READERS: dict[str, Callable[[WholeStore], object]] = {
    "workflow": lambda store: store.load_workflow("w"),
    "step": lambda store: store.load_steps("w"),
    "program": lambda store: store.load_program("fingerprint"),
    "tasks": lambda store: store.get_task("t"),
    "runners": lambda store: store.get_runner("r"),
    "servers": lambda store: store.get_server("s"),
    "logs": lambda store: store.get_logs_by_runner("r"),
    "locks": lambda store: store.check_lock("k"),
    "handler_registrations": lambda store: store.get_handler_registration("shop.Pay"),
    "events": lambda store: store.get_event("e"),
    "tombstones": lambda store: store.tombstone("gone"),
}
COMPONENTS = ("workflow_version", "step_schema_version", "runtime_version")
#: The release before: the major number before, of what has one.
BEFORE = "0.9 0.9 0.0.9"

Rewrite = Callable[[str, str], None]


def with_one_of_each(store: WholeStore) -> WholeStore:
    store.commit_batch(
        Batch(changes=[change(workflow_row("w"), step_document("w:a"))], programs={"fingerprint": b"program"})
    )
    store.save_task(task("t"))
    store.save_runner(runner("r"))
    store.save_server(ServerDefinition("s", "group", "service", "name"))
    store.save_log(LogDefinition("l", 1, runner_id="r"))
    store.acquire_lock("k", 1_000_000)
    store.save_handler_registration(HandlerRegistration(facet_name="shop.Pay", module_uri="desk"))
    store.save_event(EventDefinition("e", "w:a", "w", "event.Created", "shop.Pay"))
    store.save_tombstone(tombstone_of(workflow_row("gone"), 5))
    return store


class VersionsContract:
    """Inherit, and give `store` and `rewrite`, which puts other versions into the artifacts of a kind."""

    @pytest.mark.parametrize("kind", READERS)
    def test_an_artifact_bears_the_three_versions_of_its_writer(
        self, store: WholeStore, versions_in: Callable[[str], list[str]], kind: str
    ) -> None:
        with_one_of_each(store)

        assert versions_in(kind) == [VERSIONS]

    @pytest.mark.parametrize("kind", READERS)
    def test_an_artifact_of_the_release_before_is_read(self, store: WholeStore, rewrite: Rewrite, kind: str) -> None:
        with_one_of_each(store)
        now = READERS[kind](store)

        rewrite(kind, BEFORE)

        found = READERS[kind](store)
        # Of a workflow's row the versions are a part.
        assert found == now or (kind == "workflow" and found is not None)

    @pytest.mark.parametrize("component", range(3), ids=COMPONENTS)
    @pytest.mark.parametrize("kind", READERS)
    def test_a_newer_artifact_is_refused_with_what_to_do(
        self, store: WholeStore, rewrite: Rewrite, kind: str, component: int
    ) -> None:
        with_one_of_each(store)
        newer = VERSIONS.split(" ")
        newer[component] = "7.0"

        rewrite(kind, " ".join(newer))

        with pytest.raises(VersionMismatchError, match=r"has version 7\.0, this runtime reads .*: upgrade"):
            READERS[kind](store)

    @pytest.mark.parametrize("kind", READERS)
    def test_an_artifact_without_versions_is_damaged(self, store: WholeStore, rewrite: Rewrite, kind: str) -> None:
        with_one_of_each(store)

        rewrite(kind, "none")

        with pytest.raises(StoreCorrupt, match="version"):
            READERS[kind](store)

    def test_an_artifact_that_is_written_again_has_the_versions_of_that_writer(
        self, store: WholeStore, rewrite: Rewrite, versions_in: Callable[[str], list[str]]
    ) -> None:
        with_one_of_each(store)
        rewrite("workflow", BEFORE)

        store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))

        assert versions_in("workflow") == [VERSIONS]
