"""The schemas that a deployment writes: those of a program's facets, and of the records of every deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from afl.compiled.program import CompiledProgram
from afl.engine.errors import EvaluationError
from afl.engine.model.plan import FacetPlan
from afl.engine.planning.event_facets import plan_event_facets
from afl.engine.planning.planner import plan_workflow
from afl.errors import AFLError
from afl_stream.evaluator.facet_schemas import event_schema, type_scope
from afl_stream.registry.subjects import record_name
from afl_stream.topics.declared import Topology
from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text
from afl_stream.wire.shapes import RECORD_TYPES, shape_of

#: Record names by the names of their shipped schemas.
_RECORD_OF = {schema: name for name, (_, schema) in RECORD_TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """A schema that writes values of a topic: of a facet's events, or, without a facet, of another record."""

    topic: str
    record: str
    schema: WriterSchema
    facet: str | None = None

    @property
    def name(self) -> str:
        """The facet, or the record's name."""
        return self.facet or self.record


class ProgramSchemas:
    """The event facets of a program, with their schemas, and the workflows that can call them."""

    def __init__(self, program: CompiledProgram) -> None:
        """Plan the facets. Raises ProgramError, TypeUnknown and what planning raises."""
        planned = plan_event_facets(program)
        scope = type_scope(planned.schemas, planned.facet_names)
        self.facets: Mapping[str, FacetPlan] = {facet.name: facet for facet in planned.facets}
        self.schemas: Mapping[str, WriterSchema] = {
            facet.name: parse_schema_text(event_schema(facet, scope)) for facet in planned.facets
        }
        self.callers = _callers(program)

    def on_topics(self, topology: Topology) -> list[TopicSchema]:
        """Return the schemas of the facets whose events are records, in the order of their names."""
        return [
            TopicSchema(topic=topology.facet(facet), record=record_name(schema), schema=schema, facet=facet)
            for facet, schema in sorted(self.schemas.items())
            if topology.carries(facet)
        ]


def own_schemas(topology: Topology) -> list[TopicSchema]:
    """Return the schemas of the records that every deployment writes, by topic."""
    return [_own(topic, name) for topic, names in topology.record_schemas().items() for name in names]


def hosted_schemas(topics: Iterable[str]) -> list[TopicSchema]:
    """Return the schemas of the topics of an event-driven workflow."""
    return [_own(topic, "topic_event") for topic in topics]


def _own(topic: str, schema_name: str) -> TopicSchema:
    schema = shape_of(_RECORD_OF[schema_name]).schema
    return TopicSchema(topic=topic, record=record_name(schema), schema=schema)


def _callers(program: CompiledProgram) -> Mapping[str, Sequence[str]]:
    """Return the workflows that can call each event facet. A workflow that cannot be planned is left out."""
    callers: dict[str, list[str]] = {}
    for workflow in program.workflows():
        try:
            plan = plan_workflow(program, workflow.qualified_name)
        except (AFLError, EvaluationError):
            continue
        for facet in plan.facets:
            if facet.is_event and facet.library is None:
                callers.setdefault(facet.name, []).append(workflow.qualified_name)
    return callers
