"""Which nodes of a request can run, which are at work, and who waits for room."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from contextvars import Context, copy_context
from typing import Final

from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.running.node_runner import NodeRunner
from afl_stream.pubsub.running.room import RoomQueue

#: How soon a task is looked at again that somebody else was cancelling when the nodes were to end.
_LOOK_S: Final = 0.1


class Scheduler:
    """The nodes of one request: queued when they can run, and started in a task each, from `start` to `stop`."""

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._loop = asyncio.get_running_loop()
        self._runners: Mapping[str, NodeRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: set[asyncio.Task[None]] = set()
        self._variables: Context = copy_context()
        self._is_started = False
        #: Nodes that can run, in the order in which their subscriptions were met.
        self.invoke_queue: deque[Node] = deque()
        self.rooms = RoomQueue()
        #: Nodes in their tasks, and publishers from outside. Those that wait for room are among them.
        self.at_work = 0

    def set_runners(self, runners: Mapping[str, NodeRunner]) -> None:
        """Set the nodes."""
        self._runners = runners

    @property
    def is_started(self) -> bool:
        """Whether nodes that can run are started."""
        return self._is_started

    def can_move(self) -> bool:
        """Say whether a node is at work, or can be."""
        return bool(self._tasks or self.invoke_queue)

    def is_stuck(self) -> bool:
        """Say whether whoever is at work waits for room, if anybody is."""
        return not self.invoke_queue and self.at_work == len(self.rooms)

    # --- starting ---------------------------------------------------------------------------------------------------

    def queue(self, nodes: Iterable[str]) -> None:
        """Put those nodes into the invoke queue that can run now."""
        for name in nodes:
            runner = self._runners[name]
            if runner.task is None and not runner.is_queued and runner.can_invoke():
                runner.is_queued = True
                self.invoke_queue.append(runner.node)

    def start(self) -> None:
        """Start what is queued, now and from now on, with the context variables of the caller."""
        self._is_started = True
        self._variables = copy_context()
        self.start_queued()

    def pause(self) -> None:
        """Start nothing more until `start`. Nothing is at work."""
        self._is_started = False

    def start_queued(self) -> None:
        """Start a task for each node of the invoke queue."""
        while self._is_started and self.invoke_queue:
            runner = self._runners[self.invoke_queue.popleft().name]
            runner.is_queued = False
            # What it was queued for may be taken meanwhile, by get_node_input.
            if runner.can_invoke():
                # A task of our own making: the loop's factory may begin it here and now, one node inside another.
                # It has a copy of the variables of the caller: those current here are of another node, or request.
                runner.task = asyncio.Task(
                    runner.work(),
                    loop=self._loop,
                    name=f"{self._workflow} {runner.node.name}",
                    context=self._variables.copy(),
                )
                self._tasks.add(runner.task)
                self.at_work += 1

    def rests(self, runner: NodeRunner, task: asyncio.Task[None] | None) -> None:
        """Note that a node's task ends."""
        if task is not None:
            self._tasks.discard(task)
            self._cancelled.discard(task)
        self.at_work -= 1
        self.queue((runner.node.name,))

    # --- stopping ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Start nothing more, and cancel what is at work."""
        self._is_started = False
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                self._cancel(task)
        self.rooms.grant_all()

    def _cancel(self, task: asyncio.Task[None]) -> None:
        # Once: a second time would cut short what a command does to clean up.
        if task not in self._cancelled and not task.cancelling():
            self._cancelled.add(task)
            task.cancel()

    def cancel_again(self) -> None:
        """Cancel what is still at work, once more."""
        for task in self._tasks:
            task.cancel()

    async def until_ended(self) -> None:
        """Wait until nothing is at work any more."""
        while self._tasks:
            # A task that was being cancelled already may go on: its command's own time-out had run out.
            is_certain = self._tasks <= self._cancelled
            ended, going_on = await asyncio.wait(self._tasks, timeout=None if is_certain else _LOOK_S)
            for task in going_on:
                self._cancel(task)
            # A task that was cancelled before its first step has not taken itself out.
            self._tasks -= ended
            self._cancelled -= ended
