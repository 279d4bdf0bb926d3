"""The agents of the licence audit: one handler for each event facet, chosen by the facet's name."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from examples.licence_audit import distributions


class Registrar(Protocol):
    """Whatever takes handlers: a Kafka agent, the embedded one, a RegistryRunner."""

    def register_handler(self, facet_name: str, module_uri: str, entrypoint: str = ...) -> object: ...


def list_distributions(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of what is installed; a positive `limit` cuts the list."""
    names = distributions.installed_names()
    limit = payload["limit"]
    return {"names": names[:limit] if limit > 0 else names}


def inspect_distribution(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report on one distribution."""
    return {"report": distributions.inspect(payload["name"])}


def summarise_by_licence(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the totals by licence, and over all."""
    reports = payload["reports"]
    return {
        "totals": distributions.totals_by_licence(reports),
        "files": sum(report["files"] for report in reports),
        "bytes": sum(report["bytes"] for report in reports),
    }


_HANDLERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "licences.ListDistributions": list_distributions,
    "licences.InspectDistribution": inspect_distribution,
    "licences.SummariseByLicence": summarise_by_licence,
}


def register_handlers(runner: Registrar) -> None:
    """Say which facets this module answers."""
    for facet in _HANDLERS:
        runner.register_handler(facet_name=facet, module_uri=__name__, entrypoint="handle")


def handle(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Do the work of the event that the payload came with."""
    return _HANDLERS[payload["_facet_name"]](payload)
