"""The running parts of a bridge: its agent on a thread, and the intakes and the publisher on its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from threading import Thread

from afl.core.process.stopping import StopFlag
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.bridge.intake import Handling, Intake, IntakeSource
from afl_stream.bridge.resources import SOURCE, BridgeResources
from afl_stream.exit_codes import ExitCode
from afl_stream.pubsub import Publisher, PublisherSettings
from afl_stream.pubsub.event_stores.store import EventStore
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.transport import Transport


class BridgeServices:
    """Starts and ends the parts of one bridge. The first error of a part stops all of them."""

    def __init__(self, resources: BridgeResources) -> None:
        self._resources = resources
        self._stop = StopFlag()
        self._errors: list[BaseException] = []
        self._agent: Agent | None = None
        self._agent_thread: Thread | None = None
        self._exit_code: int = ExitCode.OK
        self._intakes_stopping: asyncio.Event | None = None
        self._intake_tasks: list[asyncio.Task[None]] = []
        self._publisher: Publisher | None = None
        self._schemas: DeploymentCodec | None = None
        self._stores: Sequence[EventStore] = ()

    def start(
        self,
        transport: Transport,
        intakes: Sequence[tuple[IntakeSource, Handling]],
        set_up_agent: Callable[[Agent], object] | None,
        stores: Sequence[EventStore] = (),
    ) -> None:
        """Start the parts: what handlers need first, the agent last. Raises what keeps one from starting."""
        resources = self._resources
        self._stores = stores
        resources.loop.start()
        try:
            resources.loop.call(self._open(transport))
            resources.loop.call(self._open_intakes(intakes))
            if set_up_agent is not None:
                self._start_agent(transport, set_up_agent)
        except BaseException:
            self.close()
            raise

    async def _open(self, transport: Transport) -> None:
        resources = self._resources
        self._schemas = DeploymentCodec(resources.config, transport, resources.topology)
        codec = self._schemas.codec
        self._publisher = Publisher(transport, codec=codec, settings=PublisherSettings(source=SOURCE))
        await self._publisher.__aenter__()
        resources.opened(transport, codec, self._publisher)

    async def _open_intakes(self, intakes: Sequence[tuple[IntakeSource, Handling]]) -> None:
        """Start the intakes, and return when all have joined their groups. Raises the error of one that has not."""
        stopping = self._intakes_stopping = asyncio.Event()
        openings = []
        for source, handle in intakes:
            is_open = asyncio.Event()
            task = asyncio.create_task(Intake(self._resources, source, handle).run(stopping, is_open))
            self._intake_tasks.append(task)
            openings.append(asyncio.create_task(is_open.wait()))
        try:
            for task, opening in zip(self._intake_tasks, openings, strict=True):
                await asyncio.wait((task, opening), return_when=asyncio.FIRST_COMPLETED)
                if not opening.done():
                    task.result()
        finally:
            for opening in openings:
                opening.cancel()
        for task in self._intake_tasks:
            task.add_done_callback(self._on_intake_done)

    def _on_intake_done(self, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._failed(error)

    def _start_agent(self, transport: Transport, set_up: Callable[[Agent], object]) -> None:
        config = AgentConfig(stream=self._resources.config, name=self._resources.agent)
        agent = self._agent = Agent(config, transport)
        set_up(agent)
        agent.start()
        self._agent_thread = Thread(target=self._run_agent, args=(agent,), name="bridge-agent", daemon=True)
        self._agent_thread.start()

    def _run_agent(self, agent: Agent) -> None:
        try:
            self._exit_code = agent.run()
        except BaseException as error:  # noqa: BLE001 - the one place of this thread; `check` raises it
            self._failed(error)
        else:
            self._stop.set()

    def _failed(self, error: BaseException) -> None:
        self._errors.append(error)
        self._stop.set()

    def stop(self) -> None:
        """Let `wait` return. Takes no lock."""
        self._stop.set()

    def remaining(self) -> str:
        """Describe the work left before it has drained. Takes no lock."""
        return "" if self._agent is None else self._agent.remaining()

    def wait(self) -> None:
        """Wait until `stop` was called, or a part has ended."""
        self._stop.wait()

    @property
    def error(self) -> BaseException | None:
        """The first error that has ended a part."""
        return self._errors[0] if self._errors else None

    def close(self) -> int:
        """End the parts, each after it has finished what it is at: the agent, the intakes, the publisher, the loop."""
        if self._agent is not None and self._agent_thread is not None:
            self._agent.stop()
            self._agent_thread.join()
        self._agent_thread = None
        if self._resources.loop.is_running:
            try:
                self._resources.loop.call(self._close())
            except Exception as error:  # noqa: BLE001 - the others are ended all the same; `check` raises it
                self._failed(error)
            self._resources.loop.close()
        return self._exit_code

    async def _close(self) -> None:
        if self._intakes_stopping is not None:
            self._intakes_stopping.set()
        # Gathered, so that asyncio does not report what `_on_intake_done` and the start have told.
        await asyncio.gather(*self._intake_tasks, return_exceptions=True)
        async with AsyncExitStack() as ending:
            # Backwards, and each of them when another one fails, too.
            for store in self._stores:
                ending.push_async_callback(store.close)
            if self._schemas is not None:
                ending.push_async_callback(asyncio.to_thread, self._schemas.close)
            if self._publisher is not None:
                ending.push_async_callback(self._publisher.close)
