"""The client: deploys programs, starts workflows, answers steps and follows milestones."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.client.client import AttemptNeeded as AttemptNeeded
    from afl_stream.client.client import Client as Client
    from afl_stream.client.milestones import Milestones as Milestones
    from afl_stream.client.milestones import NotAnswered as NotAnswered
    from afl_stream.client.milestones import NotInTime as NotInTime
    from afl_stream.wire.command_answers import REJECTED as REJECTED
    from afl_stream.wire.command_answers import RefusedByEvaluator as RefusedByEvaluator

_HOMES = {
    "afl_stream.client.client": "AttemptNeeded Client",
    "afl_stream.wire.command_answers": "REJECTED RefusedByEvaluator",
    "afl_stream.client.milestones": "Milestones NotAnswered NotInTime",
}

__all__ = ["AttemptNeeded", "Client", "Milestones", "NotAnswered", "NotInTime", "REJECTED", "RefusedByEvaluator"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "client",
    "milestones",
)
