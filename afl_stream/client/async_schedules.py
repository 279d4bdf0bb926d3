"""The asynchronous client's part about schedules: it creates, pauses, resumes, triggers and deletes them."""

from __future__ import annotations

from afl_stream.client.async_connection import AsyncConnection
from afl_stream.schedules.spec import ScheduleSpec
from afl_stream.wire.messages import Lifecycle


class AsyncScheduleConnection(AsyncConnection):
    """What an asynchronous client does with schedules; each method is that of `ScheduleConnection`, awaited."""

    async def put_schedule(
        self,
        schedule_id: str,
        spec: ScheduleSpec,
        *,
        paused: bool | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> Lifecycle | None:
        """Create a schedule, or replace what it says; see `Client.put_schedule`."""
        return await self._answered(
            lambda client, sent: client.put_schedule(schedule_id, spec, paused=paused, command_id=sent),
            command_id,
            answer_timeout_s,
            f"PutSchedule of {schedule_id}",
        )

    async def delete_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Delete a schedule; see `Client.delete_schedule`."""
        about = f"DeleteSchedule of {schedule_id}"
        return await self._answered(
            lambda client, sent: client.delete_schedule(schedule_id, command_id=sent),
            command_id,
            answer_timeout_s,
            about,
        )

    async def pause_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Let a schedule start nothing until it is resumed; see `Client.pause_schedule`."""
        about = f"PauseSchedule of {schedule_id}"
        return await self._answered(
            lambda client, sent: client.pause_schedule(schedule_id, command_id=sent),
            command_id,
            answer_timeout_s,
            about,
        )

    async def resume_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Let a paused schedule fire again; see `Client.resume_schedule`."""
        about = f"ResumeSchedule of {schedule_id}"
        return await self._answered(
            lambda client, sent: client.resume_schedule(schedule_id, command_id=sent),
            command_id,
            answer_timeout_s,
            about,
        )

    async def trigger_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Start a run of a schedule now; see `Client.trigger_schedule`."""
        about = f"TriggerSchedule of {schedule_id}"
        return await self._answered(
            lambda client, sent: client.trigger_schedule(schedule_id, command_id=sent),
            command_id,
            answer_timeout_s,
            about,
        )
