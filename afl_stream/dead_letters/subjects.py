"""The subject of a dead letter: which run, step and facet its record is about, as far as the record says."""

from __future__ import annotations

from typing import Final

from afl_stream.dead_letters.letters import DeadLetter, Hop, LetterSubject
from afl_stream.errors import StreamError
from afl_stream.topics.declared import Topology
from afl_stream.wire.codec import Codec
from afl_stream.wire.control_json import decode_json, looks_like_json
from afl_stream.wire.headers import header
from afl_stream.wire.messages import Event, Message, is_workflow_id, match_step_id

#: Bytes of a JSON value that is read for its ids; a longer one is known by its headers and its key.
_MAX_JSON_BYTES: Final = 1024 * 1024
_TYPE_PREFIX: Final = "afl."
_EVENT_PREFIX: Final = "event."


def hop_of(topic: str, topology: Topology) -> Hop:
    """Return the hop whose records go by a topic."""
    hops = {topology.control(): Hop.CONTROL, topology.commands(): Hop.COMMANDS, topology.external(): Hop.EXTERNAL}
    found = hops.get(topic)
    if found is not None:
        return found
    return Hop.EVENTS if topic and topology.is_facet_topic(topic) else Hop.OTHER


def subject_of(letter: DeadLetter, topology: Topology, codec: Codec | None = None) -> LetterSubject:
    """Return the subject of a letter: by its headers, else by its content if that can be read, else by its key.

    Without a codec only JSON is read. Nothing is raised: the record of a letter may be anything.
    """
    hop = hop_of(letter.topic, topology)
    is_told = bool(header(letter.headers, "ce_type") and header(letter.headers, "ce_subject"))
    message = None if is_told else _message_of(letter, codec)
    record_type = (header(letter.headers, "ce_type") or "").removeprefix(_TYPE_PREFIX)
    if message is not None:
        record_type = type(message).__name__
    facet = ""
    if isinstance(message, Event):
        facet = message.event_type
    elif record_type.startswith(_EVENT_PREFIX):
        facet, record_type = record_type.removeprefix(_EVENT_PREFIX), Event.__name__
    elif hop is Hop.EVENTS and len(facets := topology.facets_of(letter.topic)) == 1:
        facet = facets[0]
    step_id = workflow_id = ""
    for text in _ids(letter, message, hop):
        if (matched := match_step_id(text)) is not None:
            step_id, workflow_id = step_id or text, workflow_id or matched.group(1)
        elif is_workflow_id(text):
            workflow_id = workflow_id or text
        if workflow_id and (step_id or hop in (Hop.COMMANDS, Hop.EXTERNAL)):
            break
    if step_id and not step_id.startswith(f"{workflow_id}:"):
        step_id = ""
    return LetterSubject(hop=hop, workflow_id=workflow_id, step_id=step_id, facet=facet, record_type=record_type)


def _ids(letter: DeadLetter, message: Message | None, hop: Hop) -> list[str]:
    """Return the texts that may be the ids of the record's step and run, the most telling ones first."""
    texts: list[object] = [getattr(message, "step_id", None), getattr(message, "workflow_id", None)]
    texts.append(header(letter.headers, "ce_subject"))
    # The key of other records is not an id of ours.
    if hop is not Hop.OTHER and letter.key is not None:
        texts.append(letter.key.decode("utf-8", "replace"))
    return [text for text in texts if isinstance(text, str) and text]


def _message_of(letter: DeadLetter, codec: Codec | None) -> Message | None:
    value = letter.value
    if not value or letter.is_value_omitted:
        return None
    try:
        if codec is not None:
            return codec.decode(value, letter.headers, json_allowed=True)
        if looks_like_json(value) and len(value) <= _MAX_JSON_BYTES:
            return decode_json(value)
    except StreamError:
        return None
    return None
