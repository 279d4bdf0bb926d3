"""The schema of a facet's events, from the facet's plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.core.declared_returns import DeclaredReturns
from afl.engine.model.plan import FacetPlan
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.payload_schema import event_schema_text


def type_scope(schemas: Mapping[str, FacetPlan], facet_names: frozenset[str]) -> TypeScope:
    """Return what explains the types of a program's facets."""
    return TypeScope(
        schemas={
            name: [{"name": field, "type": afl_type} for field, afl_type in schema.param_types.items()]
            for name, schema in schemas.items()
        },
        facets=facet_names,
    )


def params_of(facet: FacetPlan) -> list[dict[str, Any]]:
    """Return the parameters of a facet, as the codec takes them."""
    return [{"name": name, "type": afl_type} for name, afl_type in facet.param_types.items()]


def returns_of(facet: FacetPlan) -> DeclaredReturns | None:
    """Return what a facet's agents learn about its returns; None when it declares none, and takes any result."""
    if not facet.return_types:
        return None
    required = facet.always_required
    return DeclaredReturns(required, tuple(name for name in facet.return_types if name not in required))


def event_schema(facet: FacetPlan, scope: TypeScope) -> str:
    """Return the text of the schema that the facet's events are written with. Raises TypeUnknown."""
    return event_schema_text(facet.name, params_of(facet), scope, returns_of(facet))
