"""A helpdesk's program and store for tests of Claude as an agent."""

from __future__ import annotations

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.telemetry import Telemetry

PROGRAM = """
namespace support {
    /** Somebody who wrote to us. */
    schema Person { name: String, age: Int }
    schema Note { text: String, by: Person }

    /**
     * Sorts a ticket into a queue.
     * @param ticket what was written
     * @return queue the queue's name
     */
    event facet Triage(ticket: String, tone: String = "calm") => (queue: String) prompt {
        system "Answer with one queue name. Tone: {tone}"
        template "Ticket {{1}}:\\n{ticket}"
        model "small-model"
    }
    event facet Count(words: [String]) => (count: Long, share: Double)
    event facet Find(name: String) => (person: Person, notes: [Note], extra: Json = null)
    event facet Ping()

    workflow Sort(ticket: String) => (queue: String) andThen {
        t = Triage(ticket = $.ticket)
        yield Sort(queue = t.queue)
    }
    workflow Total(words: [String]) => (count: Long, share: Double) andThen {
        c = Count(words = $.words)
        yield Total(count = c.count, share = c.share)
    }
    workflow Careful(words: [String]) => (count: Long) andThen {
        c = Count(words = $.words) catch { yield Count(count = -1) }
        yield Careful(count = c.count)
    }
    workflow Pinged() andThen { p = Ping() }
    workflow Each(tickets: [String]) => (queues: [String]) andThen foreach ticket in $.tickets {
        t = Triage(ticket = $.ticket)
        yield Each(queues = [t.queue])
    }
    workflow Both(ticket: String) => (queue: String, count: Long) andThen {
        t = Triage(ticket = $.ticket)
        c = Count(words = [t.queue])
        yield Both(queue = t.queue, count = c.count)
    }
}
"""


def compiled(text: str = PROGRAM) -> CompiledProgram:
    found = compile_text(text)
    assert [finding for finding in found.diagnostics if finding.severity.value == "error"] == []
    return CompiledProgram(found.program_json)


class Helpdesk:
    """One store, one evaluator, one program."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.telemetry = Telemetry()
        self.evaluator = Evaluator(self.store, self.telemetry)
        self.program = compiled()
