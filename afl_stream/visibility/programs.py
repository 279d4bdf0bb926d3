"""The programs of a deployment: their versions, the runs of each, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Final

from afl.compiled.program import CompiledProgram, Declaration, Kind
from afl.core.errors import AFLError
from afl.core.text.near_names import did_you_mean, near_names
from afl.core.types import type_name
from afl.engine.model.store import PAUSED, ProgramUse
from afl.engine.planning.programs import stored_program
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import StreamError
from afl_stream.visibility.workflows import WAITING

#: Parts of a declaration on which no behaviour depends.
_NOT_BEHAVIOUR: Final = frozenset({"location", "id", "doc"})


class NoSuchProgram(StreamError):
    """No program has a fingerprint, or one that begins so, and no program declares a workflow of that name."""

    def __init__(self, text: str, near: Sequence[str] = (), names: Sequence[str] = ()) -> None:
        if near:
            told = f"several programs begin with {text}: {', '.join(near)}; give more of the id"
        else:
            meant = did_you_mean(near_names(text, [*names, *(name.rpartition(".")[2] for name in names)]))
            told = f"there is no program and no workflow {text}{f'; {meant}' if meant else ''}"
            told += "; afl-stream programs list shows them"
        super().__init__(told)
        self.text, self.near = text, tuple(near)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs in one declaration: it was `added`, `removed`, or `changed` in its signature or its body."""

    change: str
    #: facet, event facet, workflow, schema or implicit.
    kind: str
    name: str
    #: `signature` or `body`, for a change.
    part: str = ""
    before: str = ""
    after: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramVersion:
    """A program, by its fingerprint, and its runs. Times are milliseconds since the epoch, None without runs."""

    fingerprint: str
    #: Qualified names of the workflows that it declares; empty where it cannot be read.
    workflows: tuple[str, ...]
    #: Runs by workflow and status.
    runs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    first_run_ms: int | None = None
    last_run_ms: int | None = None
    #: Why it cannot be read; "" where it can.
    unreadable: str = ""

    @property
    def run_count(self) -> int:
        """Return how many runs it has."""
        return sum(count for statuses in self.runs.values() for count in statuses.values())

    def by_status(self) -> dict[str, int]:
        """Return how many runs it has in each status."""
        counts: dict[str, int] = {}
        for statuses in self.runs.values():
            for status, count in statuses.items():
                counts[status] = counts.get(status, 0) + count
        return counts

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {**asdict(self), "run_count": self.run_count}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramVersions:
    """Versions in the order of their first runs, and what differs in each from the one before."""

    versions: tuple[ProgramVersion, ...]
    #: One for each version but the first; None where one of both cannot be read.
    differences: tuple[tuple[Difference, ...] | None, ...]

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        told = [None if found is None else [one.to_dict() for one in found] for found in self.differences]
        return {"versions": [version.to_dict() for version in self.versions], "differences": told}


def list_programs(store: EngineStore) -> list[ProgramVersion]:
    """Return the programs that the store has: those that were started, the last one that ran first."""
    uses: dict[str, list[ProgramUse]] = {fingerprint: [] for fingerprint in store.program_fingerprints()}
    for use in store.program_uses():
        uses.setdefault(use.program, []).append(use)
    versions = [_version(store, fingerprint, found) for fingerprint, found in uses.items()]
    return sorted(versions, key=lambda version: (-(version.last_run_ms or 0), version.fingerprint))


def show_programs(store: EngineStore, name: str) -> ProgramVersions:
    """Return the versions of a workflow, or the one program with this fingerprint (or one that begins so).

    A name without its namespace will do. Raises NoSuchProgram.
    """
    known = list_programs(store)
    named = [
        version for version in known if any(is_called(found, name) for found in (*version.workflows, *version.runs))
    ]
    if not named:
        named = [version for version in known if version.fingerprint.startswith(name)]
        if len(named) != 1:
            workflows = [workflow for version in known for workflow in version.workflows]
            raise NoSuchProgram(name, [version.fingerprint for version in named[:3]], workflows)
    named.sort(key=lambda version: (version.first_run_ms is None, version.first_run_ms or 0, version.fingerprint))
    programs = [_read(store, version.fingerprint)[0] for version in named]
    differences = [
        None if one is None or other is None else tuple(compare(one, other)) for one, other in pairwise(programs)
    ]
    return ProgramVersions(versions=tuple(named), differences=tuple(differences))


def full_fingerprints(store: EngineStore, start: str) -> list[str]:
    """Return the fingerprints that begin so. Raises NoSuchProgram where none does."""
    found = sorted(one for one in store.program_fingerprints() if one.startswith(start))
    if not found:
        raise NoSuchProgram(start)
    return found


def declared_names(store: EngineStore, name: str | None, kinds: Iterable[Kind]) -> list[str]:
    """Return the qualified names of these kinds that a name means, in any program of the store; None means all."""
    wanted, names = frozenset(kinds), set()
    for fingerprint in store.program_fingerprints():
        program, _ = _read(store, fingerprint)
        if program is not None:
            names |= {
                found.qualified_name
                for found in program.declarations.values()
                if found.kind in wanted and (name is None or is_called(found.qualified_name, name))
            }
    return sorted(names)


def declared_inputs(store: EngineStore) -> list[str]:
    """Return the names of the inputs of all workflows, in any program of the store."""
    names: set[str] = set()
    for fingerprint in store.program_fingerprints():
        program, _ = _read(store, fingerprint)
        for found in () if program is None else program.declarations.values():
            if found.kind is Kind.WORKFLOW:
                names |= {str(slot["name"]) for slot in found.params}
    return sorted(names)


def is_called(qualified_name: str, name: str) -> bool:
    """Return whether a name means a qualified one: it is the same, or its last part."""
    return qualified_name == name or qualified_name.endswith(f".{name}")


def compare(one: CompiledProgram, other: CompiledProgram) -> list[Difference]:
    """Return what differs in the declarations of two programs, by name. Places and doc comments do not count."""
    before, after = _declared(one), _declared(other)
    found: list[Difference] = []
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            there = now or was
            assert there is not None
            change = "added" if was is None else "removed"
            text = signature(there)
            found.append(
                Difference(
                    change=change,
                    kind=there.kind.value,
                    name=name,
                    before="" if was is None else text,
                    after="" if now is None else text,
                )
            )
            continue
        found += _changes(name, was, now)
    if plain_node([found.node for found in one.implicits]) != plain_node([found.node for found in other.implicits]):
        found.append(Difference(change="changed", kind="implicit", name="implicit values", part="body"))
    return found


def signature(declaration: Declaration) -> str:
    """Return a declaration's first line, as AFL writes it."""
    kind, name = declaration.kind.value, declaration.qualified_name
    if declaration.kind is Kind.SCHEMA:
        return f"{kind} {name} {{ {_typed(declaration.fields)} }}"
    returns = f" => ({_typed(declaration.returns)})" if declaration.returns else ""
    return f"{kind} {name}({_typed(declaration.params)}){returns}"


def _changes(name: str, was: Declaration, now: Declaration) -> list[Difference]:
    found = []
    if (before := signature(was)) != (after := signature(now)):
        found.append(
            Difference(change="changed", kind=now.kind.value, name=name, part="signature", before=before, after=after)
        )
    if _rest(was) != _rest(now):
        found.append(Difference(change="changed", kind=now.kind.value, name=name, part="body"))
    return found


def _rest(declaration: Declaration) -> object:
    """Return what a signature does not tell of a declaration: defaults, mixins, and the body."""
    node = declaration.node
    defaults = [(param.get("name"), plain_node(param.get("default"))) for param in declaration.params]
    rest = {key: value for key, value in node.items() if key not in ("params", "returns", "fields", "name", "type")}
    return defaults, plain_node(rest)


def _typed(params: Sequence[Mapping[str, object]]) -> str:
    return ", ".join(f"{param.get('name')}: {type_name(param.get('type', 'Any'))}" for param in params)


def plain_node(node: object) -> object:
    """Return a node of a program without what no behaviour depends on."""
    if isinstance(node, Mapping):
        return {key: plain_node(value) for key, value in node.items() if key not in _NOT_BEHAVIOUR}
    if isinstance(node, Sequence) and not isinstance(node, str):
        return [plain_node(entry) for entry in node]
    return node


def _declared(program: CompiledProgram) -> dict[str, Declaration]:
    return {name: found for name, found in program.declarations.items() if not found.is_library}


def _version(store: EngineStore, fingerprint: str, uses: Sequence[ProgramUse]) -> ProgramVersion:
    program, reason = _read(store, fingerprint)
    workflows = () if program is None else tuple(sorted(found.qualified_name for found in program.workflows()))
    runs: dict[str, dict[str, int]] = {}
    for use in uses:
        status = WAITING if use.status == PAUSED else use.status
        counts = runs.setdefault(use.name, {})
        counts[status] = counts.get(status, 0) + use.workflows
    return ProgramVersion(
        fingerprint=fingerprint,
        workflows=workflows,
        runs=runs,
        first_run_ms=min((use.first_ms for use in uses), default=None),
        last_run_ms=max((use.last_ms for use in uses), default=None),
        unreadable=reason,
    )


def _read(store: EngineStore, fingerprint: str) -> tuple[CompiledProgram | None, str]:
    """Return a program, or why it cannot be read."""
    try:
        program = stored_program(store, fingerprint)
    except AFLError as error:
        return None, str(error)
    return program, "" if program is not None else "it is not in the store"
