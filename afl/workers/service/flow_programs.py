"""The programs of flows: compiled from a flow's sources, or read as they were compiled for publication.

This is the only module of the engine that calls the compiler: an `afl:execute` task names a flow, and flows hold texts.
"""

from __future__ import annotations

import builtins
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from afl.compiled.program import CompiledProgram
from afl.engine.errors import RuntimeError as EngineError
from afl.engine.model.entities import FlowDefinition, SourceText
from afl.engine.planning.programs import stored_program
from afl.stores.public.persistence import EngineStore

AFL: Final = "afl"
JSON: Final = "json"

#: The most programs kept in memory, and the most characters of their texts: a runner starts workflows of few.
_PROGRAMS_KEPT: Final = 64
_CHARS_KEPT: Final = 8 * 1024 * 1024

#: Name, language and content of each text of a flow.
_Texts: TypeAlias = tuple[tuple[str, str, str], ...]


class FlowNotRunnable(EngineError, builtins.RuntimeError):
    """A flow from which no workflow can be started; the text gives the reason."""


class FlowSource(Protocol):
    """A source of flows, such as a `FlowDefinitionDAO`."""

    def get_by_id(self, flow_id: str) -> FlowDefinition | None: ...


class FlowPrograms:
    """A finder of programs by the id of their flow: in `flows`, or in a store that keeps flows itself (`get_flow`).

    The fingerprint of a stored program may be used as the id of a flow with that program.
    """

    def __init__(self, store: EngineStore, flows: FlowSource | None = None) -> None:
        self._store = store
        self._get_flow = flows.get_by_id if flows is not None else getattr(store, "get_flow", None)
        #: By the texts that a program was made from; a program of the store, by its fingerprint in their place.
        self._programs: OrderedDict[_Texts, CompiledProgram] = OrderedDict()
        self._chars = 0
        self._lock = threading.Lock()

    def load(self, flow_id: str) -> CompiledProgram:
        """Return the program of a flow. Raises FlowNotRunnable, and ParseError for a text that is not valid AFL."""
        flow: FlowDefinition | None = None if self._get_flow is None else self._get_flow(flow_id)
        if flow is None:
            return self._stored(flow_id)
        sources = list(flow.compiled_sources)
        if not sources:
            raise FlowNotRunnable(f"Flow '{flow_id}' has no compiled sources")
        texts = tuple((source.name, source.language, source.content) for source in sources)
        return self._once(texts, lambda: _compiled(flow_id, sources))

    def _once(self, key: _Texts, read: Callable[[], CompiledProgram]) -> CompiledProgram:
        """Return the earlier result for the same texts, under whatever flow they came, or read them now."""
        with self._lock:
            known = self._programs.get(key)
            if known is not None:
                self._programs.move_to_end(key)
                return known
        program = read()
        with self._lock:
            if key not in self._programs:
                self._chars += _chars_of(key)
            self._programs[key] = program
            while len(self._programs) > _PROGRAMS_KEPT or (self._chars > _CHARS_KEPT and len(self._programs) > 1):
                oldest, _ = self._programs.popitem(last=False)
                self._chars -= _chars_of(oldest)
        return program

    def _stored(self, flow_id: str) -> CompiledProgram:
        with suppress(_NotStored):
            # A program whose id is its fingerprint never changes.
            return self._once((("", "", flow_id),), lambda: self._read(flow_id))
        if self._get_flow is None:
            raise FlowNotRunnable(
                f"{type(self._store).__name__} does not support get_flow, and no program in it has the fingerprint "
                f"'{flow_id}'"
            )
        raise FlowNotRunnable(f"Flow '{flow_id}' not found")

    def _read(self, flow_id: str) -> CompiledProgram:
        program = stored_program(self._store, flow_id)
        if program is None:
            raise _NotStored
        return program


def _chars_of(texts: _Texts) -> int:
    return sum(len(content) for _, _, content in texts)


class _NotStored(Exception):
    """The store has no program under a flow's id."""


def _compiled(flow_id: str, sources: Sequence[SourceText]) -> CompiledProgram:
    """Return a flow's compiled program, libraries included, if the flow holds one; else compile its texts together.

    Texts were checked when they were published. The engine refuses a program that it cannot run at the start.
    """
    compiled = next((source for source in sources if source.language == JSON), None)
    if compiled is not None:
        return CompiledProgram.from_text(compiled.content)
    texts = [source for source in sources if source.language == AFL]
    if not texts:
        found = ", ".join(sorted({source.language for source in sources}))
        raise FlowNotRunnable(f"Flow '{flow_id}' has sources in {found}, expected {AFL} or {JSON}")
    # Only processes that start workflows load the compiler.
    from afl.ast import Program
    from afl.emitter import emit_dict
    from afl.parser import AFLParser

    parser = AFLParser()
    programs = [parser.parse(source.content, source_id=source.name) for source in texts]
    return CompiledProgram(emit_dict(programs[0] if len(programs) == 1 else Program.merge(programs)))
