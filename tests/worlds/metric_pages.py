"""Pages of metrics as Prometheus' own parser reads them."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

#: Values by the name of a sample and its labels.
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def samples(page: str) -> Samples:
    """Return the samples of a page."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
