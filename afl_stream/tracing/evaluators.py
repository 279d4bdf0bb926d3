"""The spans of an evaluator: records that it works on and sends, and runs from their start to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from os import urandom
from typing import Any, Final, Protocol, TypeAlias

from afl.core.clock import epoch_ns
from afl.core.trace_context import (
    SAMPLED,
    SPAN_AT,
    TRACE_PARENT,
    TRACE_STATE,
    TraceContext,
    context_in,
    context_of,
    derived_span_id,
    ids_of_usual,
    is_sampled_usual,
    is_sampled_usual_span,
    link_to,
)
from afl_stream.tracing.attributes import (
    CONVERSATION_ID,
    KEY,
    OFFSET,
    OUTCOME,
    batch,
    processing,
    running,
    sending,
)
from afl_stream.tracing.spans import MAX_LINKS, Link, PlainSpans, Row, SpanTemplate, new_span
from afl_stream.tracing.tracer import Tracer
from afl_stream.transport import Headers, Record

_KEYS: Final = (KEY, CONVERSATION_ID, OUTCOME, OFFSET)

#: Partitions whose spans are remembered, and runs whose span's id is.
_MOST_TEMPLATES: Final = 10_000
#: A record that names a span of its run's trace: its key, `traceparent`, offset and outcome.
_Usual: TypeAlias = tuple[bytes, bytes, int, str]


class TracedRun(Protocol):
    """What is known of a run."""

    id: str
    trace_context: str


class EvaluatorTracing:
    """Makes the spans of one evaluator. Belongs to the thread of its loop.

    A run is part of the trace of its start command, which is kept with its row, or else of one whose id is derived
    from its own. A record is worked on in a span below the one that it names, if that is of the run's trace; otherwise
    below the run's span, with a link. Spans are recorded when what they tell of is stored.
    """

    def __init__(
        self,
        tracer: Tracer,
        group: str,
        commands: str,
        *,
        passes_on: Callable[[str], bool] = lambda _topic: False,
        has_run_spans: bool = False,
    ) -> None:
        """`passes_on`: to this topic go records as others have sent them, with their contexts.

        `has_run_spans`: the telemetry of this evaluator makes spans of runs and of events itself.
        """
        self._tracer = tracer
        self._group = group
        self._commands = commands
        self._has_run_spans = has_run_spans
        self._passes_on = passes_on
        #: None: of topics that others' contexts go on to.
        self._sent: dict[str, SpanTemplate | None] = {commands: None}
        #: Returns the span of a record of this topic and partition.
        self._template_of = lru_cache(maxsize=_MOST_TEMPLATES)(self._new_template)
        #: Returns the id of the span of the run that has this id, in UTF-8.
        self._run_span_id = lru_cache(maxsize=_MOST_TEMPLATES)(self._new_run_span_id)
        self._runs: dict[str, SpanTemplate] = {}
        self._settled: dict[str, SpanTemplate] = {}

    # --- contexts -----------------------------------------------------------------------------------------------

    def started(self, headers: Headers, workflow_id: str) -> str:
        """Return the trace of a run that starts, to be kept with it."""
        return (context_of(headers) or self._tracer.run_context(workflow_id)).text

    def event_headers(self, kept: str, workflow_id: str, event_id: str) -> Headers:
        """Return the trace context of an event's record; the span of its sending has the id that is derived here."""
        if not kept:
            kept = self._tracer.run_context(workflow_id).text
        # What is kept was checked: its parts stand where they always do.
        parent = (TRACE_PARENT, f"{kept[:36]}{derived_span_id(event_id)}{kept[52:55]}".encode())
        return (parent, (TRACE_STATE, kept[56:].encode())) if len(kept) > 55 else (parent,)

    def firing_headers(self, workflow_id: str) -> Headers:
        """Return the trace context of the start command of a schedule's firing: it begins the run's trace."""
        run = self._tracer.run_context(workflow_id)
        return run._replace(span_id=derived_span_id(f"fired/{workflow_id}")).headers

    def _context(self, run: TracedRun | None, workflow_id: str) -> TraceContext:
        found = context_in(run.trace_context) if run is not None and run.trace_context else None
        return found or self._tracer.run_context(workflow_id)

    def _run_span(self, workflow_id: str, run: Any) -> str:
        if self._has_run_spans and run is not None:
            return derived_span_id(run.root.id)
        return self._tracer.run_context(workflow_id).span_id

    # --- spans --------------------------------------------------------------------------------------------------

    def sent(self, records: Iterable[tuple[str, str, bytes | None, bytes | None, Any]], began_ns: int) -> None:
        """Record that records of the outbox were handed to the broker's client."""
        ended_ns, templates = epoch_ns(), self._sent
        usual: dict[str, list[tuple[bytes, bytes]]] = {}
        for _, topic, key, _value, headers in records:
            if headers.__class__ is bytes or key is None:
                continue
            try:
                template = templates[topic]
            except KeyError:
                template = templates[topic] = None if self._passes_on(topic) else sending(topic)
            if topic != self._commands and (template is None or self._has_run_spans):
                continue
            # It is the third of ours, or it is among the others.
            parent = headers[2][1] if len(headers) == 3 else dict(headers).get(TRACE_PARENT)
            if parent is None or not is_sampled_usual(parent):
                continue
            if template is None:
                self._fired(topic, key, parent, began_ns, ended_ns)
            elif topic in usual:
                usual[topic].append((key, parent))
            else:
                usual[topic] = [(key, parent)]
        for topic, sent in usual.items():
            template = templates[topic]
            assert template is not None
            self._sent_together(template, sent, began_ns, ended_ns)

    def _sent_together(
        self, template: SpanTemplate, sent: Sequence[tuple[bytes, bytes]], began_ns: int, ended_ns: int
    ) -> None:
        """Record that records of these keys and contexts were sent: they stand below the spans of their runs."""
        keys, parents = zip(*sent, strict=True)
        trace_ids, own = ids_of_usual(parents)
        if not _are_texts(keys):
            keys = tuple([_text_of(key).encode() for key in keys])
        workflow_ids = [key.rpartition(b":")[0] for key in keys]
        above = [*map(self._run_span_id, workflow_ids)]
        texts = keys, workflow_ids
        self._tracer.record_columns(PlainSpans(template, trace_ids, own, above, began_ns, ended_ns, texts))

    def _fired(self, topic: str, key: bytes, parent: bytes, began_ns: int, ended_ns: int) -> None:
        """Record that the start command of a schedule's firing was sent, if it is one."""
        text, about = parent.decode(), key.decode("utf-8", "replace")
        span_id = text[36:52]
        if span_id != derived_span_id(f"fired/{about}"):
            return  # A command of a client, which goes on to its own evaluator.
        times, values = (began_ns, ended_ns), (about, about, None)
        self._tracer.record(new_span((sending(topic), text[3:35], span_id, "", *times, values, None, (), None)))

    def committed(
        self,
        worked_on: Sequence[tuple[Record, str]],
        began_ns: int,
        changed: Mapping[str, Any],
        run_of: Callable[[str], Any],
        ended: Iterable[Any],
    ) -> None:
        """Record a batch that is stored: its records, with their outcomes; the commit; and runs that have ended in it.

        `changed` has executions by workflow id, and `run_of` returns others, as far as the batch has them.
        """
        ended_ns = epoch_ns()
        spans: list[Row] = []
        links: list[Link] = []
        usual: dict[tuple[str, int], list[_Usual]] = {}
        times = began_ns, ended_ns
        for record, outcome in worked_on:
            topic, partition, offset, named, _, headers, _ = record
            key = "" if named is None else named.decode("utf-8", "replace")
            run = changed.get(key) or run_of(key)
            if len(headers) == 3 and run is not None and named is not None:
                name, parent = headers[2]
                kept = run.trace_context
                if (
                    name == TRACE_PARENT
                    and parent is not None
                    and parent[:SPAN_AT] == kept[:SPAN_AT].encode()
                    and kept[53:55] in SAMPLED
                    and is_sampled_usual_span(parent, SPAN_AT)
                    and "\ufffd" not in key
                ):
                    # Nearly every record: it names a span of its run's trace.
                    place = topic, partition
                    if place in usual:
                        usual[place].append((named, parent, offset, outcome))
                    else:
                        usual[place] = [(named, parent, offset, outcome)]
                    if len(links) < MAX_LINKS:
                        text = parent.decode()
                        links.append((text[3:35], text[36:52]))
                    continue
            self._add_other(record, outcome, run, times, spans, links)
        for place, rows in usual.items():
            self._usual_spans(self._template_of(*place), rows, times)
        if worked_on:
            self._commit(worked_on, began_ns, ended_ns, spans, links)
        for run in ended:
            self._ended(run, spans)
        if spans:
            self._tracer.record_all(spans)

    def _usual_spans(self, template: SpanTemplate, rows: Sequence[_Usual], times: tuple[int, int]) -> None:
        """Record the work on records of one partition, each of which names a span of its run's trace."""
        keys, parents, offsets, outcomes = zip(*rows, strict=True)
        trace_ids, above = ids_of_usual(parents)
        drawn = urandom(8 * len(rows))
        own = [drawn[at : at + 8] for at in range(0, len(drawn), 8)]
        texts = keys, keys, [outcome.encode() for outcome in outcomes]
        self._tracer.record_columns(PlainSpans(template, trace_ids, own, above, *times, texts, offsets))

    def _add_other(
        self,
        record: Record,
        outcome: str,
        run: Any,
        times: tuple[int, int],
        spans: list[Row],
        links: list[Link],
    ) -> None:
        """Add the span of the work on a record, which may be of any trace."""
        key, sender = _text_of(record.key), link_to(record.headers)
        place = self._place_of(key, run, sender)
        if place is None:
            return
        trace_id, above, own_links = place
        template, span_id = self._template_of(record.topic, record.partition), self._tracer.new_span_id()
        values = (key, key, outcome, record.offset)
        spans.append(new_span((template, trace_id, span_id, above, *times, values, None, own_links, None)))
        if len(links) < MAX_LINKS:
            links.append((trace_id, span_id) if sender is None else sender)

    def _new_run_span_id(self, workflow_id: bytes) -> bytes:
        return bytes.fromhex(self._tracer.run_context(workflow_id.decode()).span_id)

    def _new_template(self, topic: str, partition: int) -> SpanTemplate:
        return processing(topic, partition, self._group, _KEYS)

    def _place_of(self, key: str, run: Any, sender: Link | None) -> tuple[str, str, tuple[Link, ...]] | None:
        """Return where the span of a record stands: its trace, the span above, and its links; None: it is not recorded.

        `sender` is the span that the record names.
        """
        if run is not None and run.trace_context:
            kept = run.trace_context
            trace_id, is_sampled = kept[3:35], kept[53:55] in SAMPLED
        elif sender is not None and run is None:
            trace_id, is_sampled = sender[0], True
        else:
            derived = self._tracer.run_context(key)
            trace_id, is_sampled = derived.trace_id, derived.is_sampled
        if not is_sampled:
            return None
        if sender is not None and sender[0] == trace_id:
            return trace_id, sender[1], ()
        return trace_id, self._run_span(key, run), () if sender is None else (sender,)

    def _commit(
        self,
        worked_on: Sequence[tuple[Record, str]],
        began_ns: int,
        ended_ns: int,
        spans: list[Row],
        links: list[Link],
    ) -> None:
        """Add the span of the batch: a trace of its own, with links to what it commits."""
        if not links:
            return  # Nothing of it is sampled.
        topic = worked_on[0][0].topic
        template = self._settled.get(topic)
        if template is None:
            template = self._settled[topic] = batch("commit", "settle", topic, self._group)
        new_id = self._tracer.new_span_id
        values = (len(worked_on),)
        spans.append(
            new_span(
                (template, new_id() + new_id(), new_id(), "", began_ns, ended_ns, values, None, tuple(links), None)
            )
        )

    def _ended(self, run: Any, spans: list[Row]) -> None:
        context = self._context(run, run.id)
        if self._has_run_spans or not context.is_sampled:
            return
        own = self._tracer.run_context(run.id).span_id
        name = run.plan.name
        template = self._runs.get(name)
        if template is None:
            template = self._runs[name] = running(name)
        failure = run.root.error
        error = None if failure is None else (failure.type, failure.message)
        above = "" if context.span_id == own else context.span_id
        begin, end = run.created_at_ms * 1_000_000, run.now_ms * 1_000_000
        spans.append(
            new_span((template, context.trace_id, own, above, begin, end, (run.id, run.status), error, (), None))
        )


def _text_of(key: bytes | None) -> str:
    return "" if key is None else key.decode("utf-8", "replace")


def _are_texts(keys: Sequence[bytes]) -> bool:
    try:
        b"\n".join(keys).decode()
    except UnicodeDecodeError:
        return False
    return True
