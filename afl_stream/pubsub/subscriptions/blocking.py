"""The messages of a subscription for a program without an event loop, on the thread that asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from afl.core.clock import monotonic_s
from afl.core.process.stopping import PROCESS_STOP
from afl_stream.errors import Unreadable
from afl_stream.pubsub.subscriptions.group_subscription import READ_RECORDS, GroupSubscription, Lot
from afl_stream.pubsub.subscriptions.message import Message, new_message
from afl_stream.pubsub.subscriptions.settings import OnError, SubscriptionSettings
from afl_stream.transport import BrokerUnavailable

_READ_S: Final = 0.2
#: How long the program may keep a message before the group is looked after: a member that asks for nothing is removed.
_LOOK_AFTER_S: Final = 1.0


def read_blocking(group: GroupSubscription, settings: SubscriptionSettings) -> Iterator[Message]:
    """Return messages until the process is told to end, or the iterator is closed. The group is left then."""
    lots: deque[Lot] = deque()
    max_records = min(READ_RECORDS, settings.max_buffered)
    try:
        while not PROCESS_STOP.is_set():
            lots.extend(_read(group, max_records, _READ_S))
            read_at_s = monotonic_s()
            while lots:
                owned, records, _ = lots.popleft()
                for record in records:
                    if owned.is_lost:
                        break
                    message = new_message((*record, owned))
                    if _is_left_out(message, settings):
                        continue
                    yield message
                    if settings.auto_ack:
                        message.ack()
                    if monotonic_s() - read_at_s > _LOOK_AFTER_S:
                        group.hold(is_full=True)
                        lots.extend(_read(group, 1, 0.0))
                        group.hold(is_full=False)
                        read_at_s = monotonic_s()
    finally:
        group.close()


def _read(group: GroupSubscription, max_records: int, timeout_s: float) -> list[Lot]:
    lots: list[Lot] = []
    try:
        group.open()
        lots = group.read(max_records, timeout_s)
    except BrokerUnavailable as error:
        group.failed(error)
        PROCESS_STOP.wait(min(group.backoff_s() or 0.0, timeout_s))
    group.commit_when_due()
    return lots


def _is_left_out(message: Message, settings: SubscriptionSettings) -> bool:
    """Return whether the message cannot be decoded and is to be skipped."""
    if settings.on_error is not OnError.SKIP:
        return False
    try:
        _ = message.data
    except Unreadable:
        message.ack()
        return True
    return False
