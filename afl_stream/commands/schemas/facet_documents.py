"""Schemas of what each event facet takes and gives, in either language, from files or from what is deployed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from afl.compiled.program import CompiledProgram
from afl.engine.planning.event_facets import plan_event_facets
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.evaluator.facet_schemas import event_schema, params_of, returns_of, type_scope
from afl_stream.wire.json_schema import payload_json_schema, result_json_schema
from afl_stream.wire.payload_schema import payload_record_of, result_record


class FacetDocuments(NamedTuple):
    """The schemas of one facet: of its events, and of payload and result in Avro and in JSON Schema."""

    facet: str
    event: Any
    avro: dict[str, Any]
    json_schema: dict[str, Any]


def facet_documents(programs: Iterable[CompiledProgram]) -> dict[str, FacetDocuments]:
    """Return the schemas of the facets of these programs, by name. Of programs with one facet the first one counts.

    Raises ProgramError, TypeUnknown and what planning raises.
    """
    found: dict[str, FacetDocuments] = {}
    for program in programs:
        planned = plan_event_facets(program)
        scope = type_scope(planned.schemas, planned.facet_names)
        for facet in planned.facets:
            if facet.name in found:
                continue
            params = params_of(facet)
            returns = [{"name": name, "type": afl_type} for name, afl_type in facet.return_types.items()]
            event = json.loads(event_schema(facet, scope))
            found[facet.name] = FacetDocuments(
                facet=facet.name,
                event=event,
                avro={"payload": payload_record_of(event), "result": result_record(facet.name, returns, scope)},
                json_schema={
                    "payload": payload_json_schema(facet.name, params, scope),
                    "result": result_json_schema(facet.name, returns, returns_of(facet), scope),
                },
            )
    return dict(sorted(found.items()))


def programs_of(invocation: Invocation, files: Sequence[str]) -> list[CompiledProgram]:
    """Return the program of these files; without files those that are deployed."""
    from afl_stream.client.client import Client
    from afl_stream.commands.programs import compile_program
    from afl_stream.commands.topics.plans import deployed_programs

    if files:
        return [compile_program(files, invocation.terminal(), invocation.strictness)]
    config = invocation.settings()
    with open_transport(config) as transport, Client(config, transport) as client:
        return deployed_programs(client, transport)
