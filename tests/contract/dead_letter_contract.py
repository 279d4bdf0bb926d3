"""What holds of dead letters on every transport: they are found, looked at, and replayed once, whatever dies."""

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from afl.core.process.crashes import Crash
from afl_stream.dead_letters import (
    BadPlace,
    DeadLetter,
    DeadLetters,
    Hop,
    LetterFilter,
    LetterPlace,
    NoSuchLetter,
    NotReplayable,
    letters_of_workflow,
)
from afl_stream.errors import Reason, StreamError, Unreadable
from afl_stream.settings.config import StreamConfig, TopicSettings
from afl_stream.topics.declared import Topology
from afl_stream.transport import Headers, Record, TopicPartition, Transport, UnknownTopic
from afl_stream.wire.dead_letters import DlqHeader, dead_letter_headers, value_omitted

#: In ms since the epoch: when the original records were written, and given up.
WRITTEN_MS, GIVEN_UP_MS = 1_700_000_000_000, 1_700_000_100_000
HEADERS: Headers = (("ce_id", b"e1"), ("afl_attempt", b"2"), ("empty", None))


class Desk:
    """A deployment's topics of dead letters, and letters on them."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.config = StreamConfig(
            prefix=f"t{uuid4().hex[:12]}.", topics=TopicSettings(control_partitions=2, replication=1)
        )
        self.topology = Topology(self.config)
        self.control, self.events = self.topology.control(), self.topology.facet("shop.Pay")
        for topic in (self.control, self.events, self.topology.commands()):
            for name in (topic, self.topology.dlq(topic)):
                transport.admin().create_topic(name, partitions=2)
        self.producer = transport.producer()

    def letters(self, die_at: str = "") -> DeadLetters:
        def probe(point: str) -> None:
            if point == die_at:
                raise Crash(point)

        return DeadLetters(self.config, self.transport, probe=probe)

    def bury(
        self,
        original: str,
        offset: int,
        *,
        key: bytes | None = b"wf-1",
        value: bytes | None = b"\x00\xff raw",
        error: Exception | None = None,
        more: Headers = (),
        headers: Headers = HEADERS,
    ) -> None:
        """Write a dead letter as the parts of a deployment do."""
        record = Record(original, 1, offset, key, value, headers, WRITTEN_MS)
        told = dead_letter_headers(record, error or Unreadable(Reason.BAD_AVRO, "cut off"), at_ms=GIVEN_UP_MS)
        topic = self.topology.dlq(original)
        self.producer.produce(topic, value, key=key, headers=(*told, *more), partition=1)
        assert self.producer.flush(10) == 0

    def records(self, topic: str) -> list[Record]:
        with closing(self.transport.consumer(None)) as reader:
            partitions = [TopicPartition(topic, number) for number in range(2)]
            bounds = {partition: reader.watermarks(partition) for partition in partitions}
            reader.assign({partition: at.low for partition, at in bounds.items()})
            wanted = sum(at.high - at.low for at in bounds.values())
            found: list[Record] = []
            while len(found) < wanted:
                found += reader.consume(100, 1.0)
            return found


class DeadLetterContract:
    """Inherit, and give a `transport` fixture."""

    @pytest.fixture
    def desk(self, transport: Transport) -> Iterator[Desk]:
        desk = Desk(transport)
        yield desk
        desk.producer.close()

    def test_a_letter_is_found_with_all_that_it_says(self, desk: Desk) -> None:
        desk.bury(desk.control, 17, more=((DlqHeader.TRIES, b"3"), (DlqHeader.AGENT, b"a1")))

        with desk.letters() as letters:
            (found,) = letters.find()

        assert found.at_ms > 0
        assert found == DeadLetter(
            place=LetterPlace(desk.topology.dlq(desk.control), 1, 0),
            topic=desk.control,
            partition=1,
            offset=17,
            timestamp_ms=WRITTEN_MS,
            reason="bad_avro",
            error_class="Unreadable",
            error="bad_avro: cut off",
            attempt=2,
            tries=3,
            group="",
            agent="a1",
            key=b"wf-1",
            value=b"\x00\xff raw",
            headers=HEADERS,
            at_ms=found.at_ms,
        )

    def test_a_letter_of_an_earlier_release_is_found_too(self, desk: Desk) -> None:
        topic = desk.topology.dlq(desk.control)
        said = {"topic": desk.control, "partition": "0", "offset": "3", "reason": "bad_json", "error": "no JSON"}
        headers = tuple((f"afl_dlq_{name}", value.encode()) for name, value in said.items())
        desk.producer.produce(topic, b"{", key=b"k", headers=(("keep", b"me"), *headers), partition=0)
        assert desk.producer.flush(10) == 0

        with desk.letters() as letters:
            (found,) = letters.find()

        assert (found.topic, found.partition, found.offset, found.reason) == (desk.control, 0, 3, "bad_json")
        assert found.headers == (("keep", b"me"),)

    def test_letters_are_chosen_by_topic_reason_key_text_time_and_replay(self, desk: Desk) -> None:
        desk.bury(desk.control, 1, key=b"wf-1")
        desk.bury(desk.control, 2, key=b"wf-2", error=StreamError("Nothing like IT"))
        desk.bury(desk.events, 3, key=b"wf-1:0a")

        with desk.letters() as letters:

            def offsets(chosen: LetterFilter) -> set[int]:
                return {letter.offset for letter in letters.find(chosen)}

            first, *_, last = letters.find()
            letters.replay([first.place])
            assert offsets(LetterFilter(topics=frozenset({desk.events}))) == {3}
            assert offsets(LetterFilter(topics=frozenset({desk.topology.dlq(desk.control)}))) == {1, 2}
            assert offsets(LetterFilter(reasons=frozenset({"StreamError"}))) == {2}
            assert offsets(LetterFilter(key=b"wf-1")) == {1}
            assert offsets(LetterFilter(text="like it")) == {2}
            assert offsets(LetterFilter(since_ms=last.at_ms + 1)) == set()
            assert offsets(LetterFilter(until_ms=last.at_ms + 1)) == {1, 2, 3}
            assert offsets(LetterFilter(replayed=True)) == {first.offset}
            assert offsets(LetterFilter(replayed=False)) == {1, 2, 3} - {first.offset}
            assert {letter.offset for letter in letters.find(topics=[desk.topology.dlq(desk.events)])} == {3}

    def test_one_letter_is_looked_at_by_its_place(self, desk: Desk) -> None:
        desk.bury(desk.control, 5)
        topic = desk.topology.dlq(desk.control)

        with desk.letters() as letters:
            assert letters.get(f"{topic}[1]@0").offset == 5
            with pytest.raises(NoSuchLetter, match=r"no dead letter .*\[1\]@1"):
                letters.get(f"{topic}[1]@1")
            with pytest.raises(UnknownTopic):
                letters.get("nowhere[0]@0")
            with pytest.raises(BadPlace, match=r"expected TOPIC\[PARTITION\]@OFFSET"):
                letters.get(f"{topic}/1/0")

    def test_a_replayed_record_is_what_it_was_with_a_mark(self, desk: Desk) -> None:
        desk.bury(desk.control, 5)
        desk.bury(desk.control, 6, key=None, value=None)

        with desk.letters() as letters:
            places = [letter.place for letter in letters.find()]
            done = letters.replay(map(str, places))

        assert [(each.was_sent, each.letter.is_replayed) for each in done] == [(True, True)] * 2
        first, second = sorted(desk.records(desk.control), key=lambda record: record.key is None)
        assert (first.key, first.value) == (b"wf-1", b"\x00\xff raw")
        assert first.headers == (*HEADERS, ("afl.dlq.replayed_from", str(places[0]).encode()))
        assert (second.partition, second.key, second.value) == (1, None, None), "without a key it keeps its partition"
        with desk.letters() as letters:
            assert [letter.is_replayed for letter in letters.find()] == [True, True]

    def test_a_letter_is_replayed_once_unless_it_is_wanted_again(self, desk: Desk) -> None:
        desk.bury(desk.control, 5)

        with desk.letters() as letters:
            (letter,) = letters.find()
            sent = [
                [each.was_sent for each in letters.replay([letter.place, letter.place], again=again)]
                for again in (False, False, True)
            ]

        assert sent == [[True], [False], [True]]
        assert len(desk.records(desk.control)) == 2

    @pytest.mark.parametrize("point", ["replay.intended", "replay.produced", "replay.done"])
    def test_a_replay_that_died_is_finished_by_the_next_one(self, desk: Desk, point: str) -> None:
        desk.bury(desk.control, 5)
        desk.bury(desk.control, 6)
        with desk.letters(die_at=point) as letters, pytest.raises(Crash):
            letters.replay([letter.place for letter in letters.find()])

        with desk.letters() as letters:
            letters.replay([letter.place for letter in letters.find()])
            assert all(letter.is_replayed for letter in letters.find())

        assert len(desk.records(desk.control)) == 2, "each is sent once"

    def test_nothing_is_sent_when_one_of_the_letters_cannot_be(self, desk: Desk) -> None:
        desk.bury(desk.control, 5)
        desk.bury(desk.control, 6, value=None, more=(value_omitted(b"large"),))

        with desk.letters() as letters:
            places = [letter.place for letter in letters.find()]
            with pytest.raises(NotReplayable, match="its value was too large"):
                letters.replay(places)
            with pytest.raises(NoSuchLetter):
                letters.replay([places[0], LetterPlace(places[0].topic, 1, 99)])

        assert desk.records(desk.control) == []

    def test_a_letter_whose_topic_is_gone_is_refused_by_name(self, desk: Desk) -> None:
        desk.bury(desk.control, 5)
        desk.transport.admin().delete_topic(desk.control)

        with desk.letters() as letters, pytest.raises(UnknownTopic, match=desk.control):
            letters.replay([letter.place for letter in letters.find()])

    def test_letters_are_chosen_by_run_step_facet_and_hop_as_headers_json_and_keys_say(self, desk: Desk) -> None:
        commands = desk.topology.commands()
        desk.bury(desk.control, 1, key=b"wf-1", headers=(("ce_subject", b"wf-1:0a"), ("ce_type", b"afl.StepContinue")))
        desk.bury(desk.control, 2, key=b"k", value=b'{"step_id": "wf-1:0b", "result": {}}', headers=())
        desk.bury(desk.control, 3, key=b"wf-1", headers=())
        desk.bury(desk.events, 4, key=b"wf-1:0a", headers=(("ce_type", b"afl.event.shop.Pay"),))
        desk.bury(desk.events, 5, key=b"wf-2:0a", headers=())
        desk.bury(commands, 6, key=b"wf-1", headers=(("ce_subject", b"wf-1"), ("ce_type", b"afl.CancelWorkflow")))
        desk.bury(desk.control, 7, key=b"wf-10", headers=())

        with desk.letters() as letters:

            def offsets(chosen: LetterFilter) -> set[int]:
                return {letter.offset for letter in letters.find(chosen)}

            assert offsets(LetterFilter(workflow_id="wf-1")) == {1, 2, 3, 4, 6}
            assert offsets(LetterFilter(step_id="wf-1:0a")) == {1, 4}
            assert offsets(LetterFilter(facet="shop.Pay")) == {4, 5}
            assert offsets(LetterFilter(hops=frozenset({Hop.COMMANDS}))) == {6}
            assert offsets(LetterFilter(workflow_id="wf-1", hops=frozenset({Hop.EVENTS, Hop.CONTROL}))) == {1, 2, 3, 4}
            of_run = letters_of_workflow(letters, "wf-1")
            assert {step: {one.offset for one in found} for step, found in of_run.by_step.items()} == {
                "wf-1:0a": {1, 4},
                "wf-1:0b": {2},
            }
            assert {letter.offset for letter in of_run.others} == {3, 6}
            assert not letters_of_workflow(letters, "wf-3")

    def test_letters_since_a_time_are_found_without_the_older_ones(self, desk: Desk) -> None:
        desk.bury(desk.control, 1)
        with desk.letters() as letters:
            (first,) = letters.find()
            desk.bury(desk.control, 2)
            latest = letters.find()[-1]

            assert latest in letters.find(LetterFilter(since_ms=first.at_ms))
            assert letters.find(LetterFilter(since_ms=latest.at_ms + 1)) == []

    def test_a_dropped_letter_is_left_out_of_lists_and_says_why_when_asked(self, desk: Desk) -> None:
        desk.bury(desk.control, 1)
        desk.bury(desk.control, 2)

        with desk.letters() as letters:
            first, second = letters.find()
            outcomes = [letters.drop([first.place, str(first.place)], because="answered by hand") for _ in range(2)]

            assert [[each.was_noted for each in outcome] for outcome in outcomes] == [[True], [False]]
            assert letters.find(LetterFilter(dropped=False)) == [second]
            dropped = letters.get(first.place)
            assert (dropped.is_dropped, dropped.dropped_because, dropped.is_open) == (True, "answered by hand", False)
            assert dropped.dropped_at_ms >= first.at_ms
            assert letters.find(LetterFilter(dropped=True)) == [dropped]
            assert not letters_of_workflow(letters, "wf-1").others[1:]
        assert len(desk.records(first.place.topic)) == 3, "the record stays, and one note is added"

    def test_a_dropped_letter_is_replayed_only_when_that_is_asked_for(self, desk: Desk) -> None:
        desk.bury(desk.control, 1)

        with desk.letters() as letters:
            (letter,) = letters.find()
            letters.drop([letter.place])
            with pytest.raises(NotReplayable, match="it was dropped"):
                letters.replay([letter.place])
            assert desk.records(desk.control) == []
            assert [each.was_sent for each in letters.replay([letter.place], again=True)] == [True]

    def test_a_drop_that_died_is_repeated_without_a_second_note(self, desk: Desk) -> None:
        desk.bury(desk.control, 1)
        desk.bury(desk.control, 2)
        with desk.letters(die_at="drop.noted") as letters, pytest.raises(Crash):
            letters.drop([letter.place for letter in letters.find()])

        with desk.letters() as letters:
            places = [letter.place for letter in letters.find()]
            assert [each.was_noted for each in letters.drop(places)] == [False, True]
            assert letters.find(LetterFilter(dropped=False)) == []
