"""A program: asks for the bounds of partitions again and again, with next to no time for an answer."""

from __future__ import annotations

import sys
from concurrent.futures import Future, wait
from itertools import cycle, islice

from confluent_kafka import Consumer

from afl_stream.kafka.offset_questions import FIRST, NEXT, OffsetQuestions, Offsets
from afl_stream.kafka.settings import offset_settings
from afl_stream.settings.config import KafkaSettings, StreamConfig
from afl_stream.transport import TopicPartition

#: Two askers, as two evaluators in one process are.
_ASKERS = 2
_TIMEOUTS_S = (0.001, 0.001, 0.002, 0.005, 0.02)
_PARTITIONS = [TopicPartition("t", number) for number in range(20)]


def main(address: str, calls: int) -> None:
    settings = offset_settings(StreamConfig(kafka=KafkaSettings(bootstrap=address))) | {"log_level": 0}
    made = 0

    def consumer() -> Consumer:
        return Consumer(settings)

    askers = [OffsetQuestions(consumer) for _ in range(_ASKERS)]
    timeouts_s = cycle(_TIMEOUTS_S)
    while made < calls:
        asked: list[Future[Offsets]] = []
        for asker, at, timeout_s in zip(cycle(askers), (FIRST, NEXT), islice(timeouts_s, 2), strict=False):
            asked.append(asker.ask(dict.fromkeys(_PARTITIONS, at), timeout_s))
        wait(asked)
        made += len(asked)
    for asker in askers:
        asker.close()
    sys.stdout.write(str(made))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
