"""Tables of the documents that are made from the code: `python -m tests.architecture.page_tables` rewrites them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from afl.core.exit_codes import MEANINGS, ExitCode
from afl.core.monitoring.metrics import SERVICE_METRICS
from afl.validation.rules import RULES
from afl.workers.service.metrics import POLLER_METRICS
from afl_stream.acls import Match
from afl_stream.agent.metrics import AGENT_METRICS
from afl_stream.audit.metrics import AUDIT_METRICS
from afl_stream.evaluator.monitoring.metrics import EVALUATOR_METRICS
from afl_stream.evaluator.outcomes import ANSWER_RULES
from afl_stream.gateway.metrics import GATEWAY_METRICS
from afl_stream.pubsub.hosting.topics import WorkflowTopics
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.acls import rights_of
from afl_stream.topics.declared import Topology
from afl_stream.topics.rights import BridgeScope, Role, Scope, Subscribed

ROOT = Path(__file__).parents[2]
_TABLE = re.compile(r"(?<=<!-- table: )([a-z-]+) -->\n.*?(?=<!-- end of table -->)", re.DOTALL)


def settings() -> str:
    """Every setting of a deployment with its default and meaning."""
    rows = [
        (
            f"`{setting.metadata.get('passed_through', section + setting.name)}`",
            f"`{_written(default)}`" if default or default == 0 else "",
            str(setting.metadata["meaning"]),
        )
        for section, setting, default in _settings(StreamConfig())
    ]
    return _table(("setting", "default", "meaning"), rows)


def answers() -> str:
    """Return what an answer can turn out to be."""
    return _table(("outcome", "when"), [(f"`{rule.outcome.value}`", rule.meaning) for rule in ANSWER_RULES])


def rules() -> str:
    """Return the rules of the language, in order of their codes."""
    listed = sorted(RULES.values(), key=lambda rule: (rule.code, rule.severity))
    rows = [
        (f"`{rule.code}`", "error in programs" if rule.is_left_open else rule.severity.value, rule.meaning)
        for rule in listed
    ]
    return _table(("code", "", "rule"), rows)


def exit_codes() -> str:
    """How the commands `afl` and `afl-stream` end."""
    return _table(("code", "meaning"), [(f"`{code.value}`", MEANINGS[code]) for code in ExitCode])


def metrics() -> str:
    """Every metric of every service."""
    found = (
        *SERVICE_METRICS,
        *EVALUATOR_METRICS,
        *AGENT_METRICS,
        *AUDIT_METRICS,
        *GATEWAY_METRICS,
        *POLLER_METRICS,
    )
    rows = [
        (f"`{metric.name}`", metric.kind.value, ", ".join(f"`{label}`" for label in metric.labels), metric.meaning)
        for metric in found
    ]
    return _table(("metric", "kind", "labels", "meaning"), rows)


def rights() -> str:
    """Return the least rights of each role, with a facet as an example."""
    topology, rows = Topology(StreamConfig()), []
    review = WorkflowTopics(StreamConfig(), "review", ["cases", "checked", "verdicts"], topology)
    hosted = Scope(hosted=review.scope(taken=["cases"], given=["verdicts"], has_state=True))
    facets, parcels = Scope(facets=("shop.Charge",)), Subscribed(topic="shop.parcels", group="afl.pubsub.sub.report")
    read = replace(parcels, group="afl.pubsub.sub.bridge.shop.parcels", has_letters=True)
    scopes = {
        Role.AGENT: facets,
        Role.PRODUCER: Scope(answers=True),
        Role.GATEWAY: facets,
        Role.BRIDGE: replace(facets, bridge=BridgeScope(reads=(read,), writes=("shop.orders",), raises_events=True)),
        Role.PUBSUB_WORKER: hosted,
        Role.PUBSUB_CLIENT: hosted,
        Role.SUBSCRIBER: Scope(subscribed=(parcels,)),
    }
    for role in Role:
        for right in rights_of(role, topology, scopes.get(role)):
            name = f"{right.name}*" if right.match is Match.PREFIXED else right.name
            why = f"optional: {right.why}" if right.is_optional else right.why
            rows.append((role.value, f"{right.resource} `{name}`", ", ".join(right.operations), why))
    return _table(("role", "on", "operations", "why"), rows)


#: By the name that a page calls the table by.
TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "answers": answers,
    "rules": rules,
    "exits": exit_codes,
    "metrics": metrics,
    "rights": rights,
}


def with_tables(text: str) -> str:
    """Return a page's text with its tables as the code has them now."""
    return _TABLE.sub(lambda found: f"{found[1]} -->\n{TABLES[found[1]]()}", text)


def tables_in(text: str) -> list[str]:
    """Return the names of a page's tables."""
    return [found[1] for found in _TABLE.finditer(text)]


def pages() -> list[Path]:
    """Every document that may have such a table."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _settings(config: object, section: str = "") -> Iterator[tuple[str, dataclasses.Field[object], object]]:
    assert dataclasses.is_dataclass(config)
    for setting in dataclasses.fields(config):
        value = getattr(config, setting.name)
        if dataclasses.is_dataclass(value):
            yield from _settings(value, f"{setting.name}.")
        else:
            yield section, setting, value


def _written(default: object) -> object:
    """Return a default as it stands in a settings file."""
    return str(default).lower() if isinstance(default, bool) else default


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_tables(page.read_text()))
