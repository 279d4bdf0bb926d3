"""Reports about records, from the threads that have their outcomes to the member that commits."""

from enum import Enum, auto
from typing import NamedTuple

from afl_stream.agent.work import Work
from afl_stream.errors import StreamError


class PoisonEvent(StreamError):
    """An event whose handler was running each time when several processes died."""

    def __init__(self, event_id: str, crashes: int) -> None:
        super().__init__(f"the handler of event {event_id} was running in {crashes} processes when they died")
        self.event_id = event_id
        self.crashes = crashes


class After(Enum):
    """The member's next action for a record. DROP: its partition was lost before its answer was sent."""

    FINISH = auto()
    RETRY = auto()
    START_AGAIN = auto()
    SEND_AGAIN = auto()
    NOTE_START = auto()
    DROP = auto()


class Completion(NamedTuple):
    """A report about a record, from the thread that has it. `wait_s` is the wait before a retry."""

    work: Work
    after: After
    wait_s: float = 0.0
    error: Exception | None = None
