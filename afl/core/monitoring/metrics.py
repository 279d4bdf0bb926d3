"""Metrics: what each is called and means, and the values that a service has for it at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias


class MetricKind(StrEnum):
    """The kind of a metric, by Prometheus' names."""

    #: Only grows, and begins at 0 with its process.
    COUNTER = "counter"
    #: Goes up and down.
    GAUGE = "gauge"
    #: How many observations were at most as large as each bound.
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `name` as Prometheus' conventions say, with its unit; `meaning` for people."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


class Distribution(NamedTuple):
    """The observations of a histogram."""

    #: The upper bounds of the buckets; there is one more bucket, for what is larger.
    bounds: Sequence[float]
    #: How many observations each bucket has, not counting those of smaller ones.
    counts: Sequence[int]
    total: float


#: The values of one metric, by the values of its labels.
Values: TypeAlias = Mapping[tuple[str, ...], float | Distribution]


class Family(NamedTuple):
    """A metric with its values."""

    metric: Metric
    values: Values


class MetricSource(Protocol):
    """A part of a process that has metrics. It is asked by the threads of servers and exporters: it must not wait."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """All metrics that `collect` may return."""

    def collect(self) -> Iterable[Family]:
        """Return the values of now. A metric without any value may be left out."""


def counter(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a counter."""
    return Metric(name, MetricKind.COUNTER, meaning, labels)


def gauge(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a gauge."""
    return Metric(name, MetricKind.GAUGE, meaning, labels)


def histogram(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a histogram."""
    return Metric(name, MetricKind.HISTOGRAM, meaning, labels)


def one(metric: Metric, value: float) -> Family:
    """Return the only value of a metric without labels."""
    return Family(metric, {(): value})


def by_label(metric: Metric, values: Mapping[str, float], known: Iterable[str] = ()) -> Family:
    """Return the values of a metric with one label; those of `known` are 0 until they are counted.

    A series that begins with 1 hides its first count: Prometheus' `rate` and `increase` see a change of a series only.
    """
    found: dict[tuple[str, ...], float] = {(str(label),): 0.0 for label in known}
    found.update({(str(label),): value for label, value in values.items()})
    return Family(metric, found)


#: What every service has.
BUILD: Final = gauge("afl_build_info", "1; the labels say which service this is, and its release", "service", "version")
READY: Final = gauge("afl_ready", "1 while the service makes progress, as /health/ready says; else 0", "service")
LIVE: Final = gauge("afl_live", "1 while the service's loop turns, as /health/live says; else 0", "service")
SERVICE_METRICS: Final = (BUILD, READY, LIVE)
