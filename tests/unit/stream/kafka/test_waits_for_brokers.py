"""Waits for a broker say which one: an operator may have several."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread

import pytest

from afl.core.process.long_waits import WAITS
from afl.core.process.stopping import StopFlag
from afl_stream.kafka.waits import result_of
from afl_stream.outage import GaveUp
from afl_stream.reading.watchdog import Watchdog
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import BrokerView, Stopping
from tests.eventually import eventually


def test_a_wait_for_an_answer_names_the_address_of_the_broker() -> None:
    stop = StopFlag()

    def ask() -> None:
        with pytest.raises(Stopping):
            result_of(Future(), 600, "what topics there are", stop, address="kafka-1:9092")

    asking = Thread(target=ask)
    asking.start()
    try:
        wanted = "the broker at kafka-1:9092: what topics there are"
        eventually(lambda: any(said.startswith(wanted) for said in WAITS.now()))
    finally:
        stop.set()
        asking.join()


class Silent:
    """A consumer whose broker has not answered for a long time."""

    def view(self) -> BrokerView:
        return BrokerView(is_reported=True, unanswered_s=600.0)


@pytest.mark.parametrize(
    ("bootstrap", "broker"), [("kafka-1:9092", "the broker at kafka-1:9092"), (None, "the broker")]
)
def test_a_reader_whose_broker_is_silent_names_it(bootstrap: str | None, broker: str) -> None:
    now_s = [0.0]
    settings = KafkaSettings(bootstrap=bootstrap, silent_after_s=10, outage_timeout_s=60)
    watchdog = Watchdog(settings, "group g", lambda: now_s[0])

    now_s[0] = 30.0
    watchdog.read(Silent(), 0)  # type: ignore[arg-type]  # it is asked for its view alone
    assert watchdog.problem == f"group g: {broker} has not answered for 600 s"
    now_s[0] = 120.0
    with pytest.raises(GaveUp, match=broker):
        watchdog.read(Silent(), 0)  # type: ignore[arg-type]
