"""The end of a task that was done while the store is away: stored when the store is back, also at the server's end."""

import threading
from typing import Any

from afl.core.handlers.routes import Route
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import TaskDefinition
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.workers.call_threads import CallsHere
from afl.workers.task_work import Job, TaskWork
from tests.eventually import eventually


class _Away(MemoryStore):
    """A store that is away for the first ends of tasks."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times
        self.ended: list[str] = []

    def end_task(self, task_id: str, owner: str, state: str, error: dict[str, object] | None = None) -> bool:
        if self.left:
            self.left -= 1
            raise StoreUnavailable(path="db", reason="no primary")
        self.ended.append(state)
        return True


class _Source:
    """One handler for all tasks."""

    def registered_names(self) -> list[str]:
        return ["shop.Pay"]

    def serves(self, facet_name: str) -> bool:
        return True

    def find(self, facet_name: str) -> Route:
        return Route(name="x", find=lambda: lambda payload: {})


def _work(store: _Away, stopping: threading.Event, *waits_s: float) -> TaskWork:
    def ignore(*args: Any) -> None:
        """Nobody counts, resumes or probes here."""

    return TaskWork(
        store,
        Evaluator(store),
        _Source(),
        "server",
        resume=ignore,
        count=ignore,
        stopping=stopping,
        probe=ignore,
        store_waits_s=waits_s,
    )


def _job() -> Job:
    return Job(TaskDefinition("t", "shop.Pay", "r", "", "", ""))


def test_the_word_to_stop_has_a_waiting_answer_stored_at_once() -> None:
    store, stopping = _Away(1), threading.Event()
    work, job = _work(store, stopping, 3_600), _job()
    at_work = threading.Thread(target=work.do, args=(job, CallsHere()), daemon=True)
    at_work.start()
    eventually(lambda: store.left == 0)
    assert store.ended == []

    stopping.set()

    eventually(lambda: store.ended == ["completed"])
    at_work.join(15)
    assert (at_work.is_alive(), job.left) == (False, False)


def test_a_server_that_stops_tries_on_and_leaves_the_task_to_others_in_the_end() -> None:
    stopping = threading.Event()
    stopping.set()
    stored, given_up = _job(), _job()

    assert _work(_Away(1), stopping, 0.0).do(stored, CallsHere())
    assert not _work(_Away(2), stopping, 0.0).do(given_up, CallsHere())
    assert (stored.left, given_up.left) == (False, True)


def test_nothing_is_tried_for_a_task_that_the_drain_has_given_up() -> None:
    store, job = _Away(5), _job()
    job.abandoned = True

    assert _work(store, threading.Event(), 3_600).do(job, CallsHere())
    assert (store.left, store.ended) == (5, [])
