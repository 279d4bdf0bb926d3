"""The client: deploys programs, starts workflows, answers steps and follows milestones."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.client.answering import AttemptNeeded as AttemptNeeded
    from afl_stream.client.async_answers import ClientNotOpen as ClientNotOpen
    from afl_stream.client.async_client import AsyncClient as AsyncClient
    from afl_stream.client.async_milestones import AsyncMilestones as AsyncMilestones
    from afl_stream.client.bulk_starts import SameIdTwice as SameIdTwice
    from afl_stream.client.bulk_starts import StartRefused as StartRefused
    from afl_stream.client.bulk_starts import StartRequest as StartRequest
    from afl_stream.client.bulk_starts import StartsNotSent as StartsNotSent
    from afl_stream.client.client import Client as Client
    from afl_stream.client.ends import NotEnded as NotEnded
    from afl_stream.client.external_events import EventOutcome as EventOutcome
    from afl_stream.client.external_events import EventReceipt as EventReceipt
    from afl_stream.client.milestones import Milestones as Milestones
    from afl_stream.client.milestones import NotAnswered as NotAnswered
    from afl_stream.client.milestones import NotInTime as NotInTime
    from afl_stream.schedules.spec import Overlap as Overlap
    from afl_stream.schedules.spec import ScheduleRefused as ScheduleRefused
    from afl_stream.schedules.spec import ScheduleSpec as ScheduleSpec
    from afl_stream.wire.command_answers import REJECTED as REJECTED
    from afl_stream.wire.command_answers import RefusedByEvaluator as RefusedByEvaluator
    from afl_stream.wire.headers import IfExists as IfExists

_HOMES = {
    "afl_stream.client.bulk_starts": "SameIdTwice StartRefused StartRequest StartsNotSent",
    "afl_stream.client.answering": "AttemptNeeded",
    "afl_stream.client.async_answers": "ClientNotOpen",
    "afl_stream.client.async_client": "AsyncClient",
    "afl_stream.client.async_milestones": "AsyncMilestones",
    "afl_stream.client.client": "Client",
    "afl_stream.client.ends": "NotEnded",
    "afl_stream.client.external_events": "EventOutcome EventReceipt",
    "afl_stream.wire.command_answers": "REJECTED RefusedByEvaluator",
    "afl_stream.wire.headers": "IfExists",
    "afl_stream.schedules.spec": "Overlap ScheduleRefused ScheduleSpec",
    "afl_stream.client.milestones": "Milestones NotAnswered NotInTime",
}

__all__ = [
    "AsyncClient",
    "AsyncMilestones",
    "AttemptNeeded",
    "Client",
    "ClientNotOpen",
    "EventOutcome",
    "EventReceipt",
    "IfExists",
    "Milestones",
    "NotAnswered",
    "NotEnded",
    "NotInTime",
    "Overlap",
    "REJECTED",
    "RefusedByEvaluator",
    "SameIdTwice",
    "ScheduleRefused",
    "ScheduleSpec",
    "StartRefused",
    "StartRequest",
    "StartsNotSent",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "async_client",
    "bulk_starts",
    "client",
    "external_events",
    "milestones",
)
