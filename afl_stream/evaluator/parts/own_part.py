"""The part of the store that one evaluator has, and what that means for the records that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afl.stores.public.persistence import EngineStore
from afl_stream.errors import Reason, Unreadable
from afl_stream.evaluator.answer_identity import workflow_of_answer
from afl_stream.evaluator.parts.parted_store import parts_within
from afl_stream.partitioner import partition_for
from afl_stream.settings.store_parts import StorePart
from afl_stream.transport import Consumer
from afl_stream.wire.messages import STORE_KEY, Answer, Message, ScheduleCommand


class OfAnotherPart(Unreadable):
    """A record that lies in a partition of this part, and is for a workflow of another: it was written under a key that
    is not the workflow's id.
    """

    def __init__(self, key: str, part: StorePart) -> None:
        super().__init__(Reason.BAD_KEY, f"{key} is not of part {part}: the record goes on under its own key")
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPart:
    """The part of one evaluator.

    `parts_id` is the id of the division. `everything` reads all parts: how a workflow of another part stands. `join`
    returns the consumer of a group that has the partitions of certain numbers.
    """

    part: StorePart
    parts_id: str
    control_partitions: int
    everything: EngineStore
    join: Callable[[str, frozenset[int]], Consumer]

    @property
    def partitions(self) -> frozenset[int]:
        """The numbers of the partitions that this evaluator reads, of control, commands and external alike."""
        return self.part.partitions(self.control_partitions)

    @property
    def first_store_id(self) -> str:
        """The id that the first part has now: with it the whole store is claimed."""
        return parts_within(self.everything)[0].identity().id

    @property
    def claim_key(self) -> str:
        """The key of this part's claims: the first part claims as a store of one file does, so that it excludes one."""
        return STORE_KEY if self.part.number == 1 else f"{STORE_KEY}:{self.parts_id}:{self.part.as_option}"

    def own(self, message: Message) -> Message:
        """Return a message of one of our workflows or schedules. Raises OfAnotherPart for any other."""
        if isinstance(message, Answer):
            key = workflow_of_answer(message)
        elif isinstance(message, ScheduleCommand):
            key = message.schedule_id
        else:
            key = str(getattr(message, "workflow_id", ""))
        if key and not self.part.owns(partition_for(key.encode(), self.control_partitions)):
            raise OfAnotherPart(key, self.part)
        return message
