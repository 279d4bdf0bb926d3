"""The client's part about schedules: it creates, pauses, resumes, triggers and deletes them."""

from __future__ import annotations

from afl_stream.client.connection import Connection, drawn_id
from afl_stream.schedules.spec import ScheduleSpec as ScheduleSpec
from afl_stream.schedules.spec import command_of, spec_of
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    TriggerSchedule,
    check_schedule_id,
)


class ScheduleConnection(Connection):
    """What a client does with schedules.

    Each method returns the evaluator's answer if it waits for one: its `kind` is `command.applied`, or
    `command.repeated` where nothing was left to do. The same `command_id` again does nothing; without one an id is
    generated. Each raises IdRefused, and BrokerUnavailable when the command was not acknowledged; with
    `answer_timeout_s`, which is in seconds, also RefusedByEvaluator and NotAnswered.
    """

    def put_schedule(
        self,
        schedule_id: str,
        spec: ScheduleSpec,
        *,
        paused: bool | None = None,
        command_id: str | None = None,
        answer_timeout_s: float | None = None,
    ) -> Lifecycle | None:
        """Create a schedule, or replace what it says; `paused` None leaves it as it is.

        It fires from now on. Raises also ScheduleRefused for what cannot be kept, and UnknownProgram with near names.
        """
        command = command_of(schedule_id, spec, paused=paused, command_id=command_id or drawn_id())
        spec_of(command)
        self.definitions.find(spec.workflow, spec.program)
        return self._give(command, answer_timeout_s)

    def delete_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Delete a schedule. Runs that it has started continue."""
        command = DeleteSchedule(schedule_id=check_schedule_id(schedule_id), command_id=command_id or drawn_id())
        return self._give(command, answer_timeout_s)

    def pause_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Let a schedule start nothing until it is resumed; what falls into the pause is not made up."""
        command = PauseSchedule(schedule_id=check_schedule_id(schedule_id), command_id=command_id or drawn_id())
        return self._give(command, answer_timeout_s)

    def resume_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Let a paused schedule fire again."""
        command = ResumeSchedule(schedule_id=check_schedule_id(schedule_id), command_id=command_id or drawn_id())
        return self._give(command, answer_timeout_s)

    def trigger_schedule(
        self, schedule_id: str, *, command_id: str | None = None, answer_timeout_s: float | None = None
    ) -> Lifecycle | None:
        """Start a run of a schedule now, besides those of its times, whatever else of it runs."""
        command = TriggerSchedule(schedule_id=check_schedule_id(schedule_id), command_id=command_id or drawn_id())
        return self._give(command, answer_timeout_s)
