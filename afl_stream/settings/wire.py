"""The settings of the form of records that are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from afl_stream.errors import ConfigError
from afl_stream.settings.sections import choice, text

HEADER_FORMS: Final = ("compact", "cloudevents")
#: Forms of an event that stands for itself; `auto` is one of the first two.
EVENT_FORMS: Final = ("avro", "confluent", "json", "cloudevents")
AUTO: Final = "auto"
#: What the setting of single facets has to be, in words.
FACET_EVENTS_FORM: Final = (
    f"FACET=FORM, separated by commas: each facet or pattern once, and {', '.join(EVENT_FORMS)}: "
    "shop.Charge=json, desk.*=avro"
)
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.*?]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """The form of the records that are written. Readers take every form."""

    headers: str = choice(
        "compact",
        HEADER_FORMS,
        "headers of records: `compact`: `content-type`, and all else in one header, `afl`; or `cloudevents`: a header "
        "for each attribute, by the Kafka binding of CloudEvents, for other programs that read these",
    )
    events: str = choice(
        AUTO,
        (AUTO, *EVENT_FORMS),
        "values of events: `avro`, `confluent` (Avro as a registry frames it), `json`, or `cloudevents` (JSON as "
        "a structured CloudEvent); `auto`: `confluent` with a registry, else `avro`",
    )
    facet_events: str | None = text(
        None,
        "the same for single facets: `shop.Charge=json, desk.*=avro`; a name wins over a pattern, and a longer pattern "
        "over a shorter one",
    )

    def event_form(self, facet: str) -> str | None:
        """Return the form of a facet's events; None: that of all other records."""
        forms = forms_of(self.facet_events or "") or {}
        chosen = next((form for pattern, form in _ordered(forms) if fnmatchcase(facet, pattern)), self.events)
        return None if chosen == AUTO else chosen


def forms_of(listed: str) -> dict[str, str] | None:
    """Return the forms that a setting gives, by the name or pattern of facets; None for a text that is none."""
    forms: dict[str, str] = {}
    for entry in listed.split(",") if listed.strip() else ():
        pattern, _, form = (part.strip() for part in entry.partition("="))
        if not _PATTERN.match(pattern) or form not in EVENT_FORMS or pattern in forms:
            return None
        forms[pattern] = form
    return forms


def check_wire(wire: WireSettings, source: str, *, has_registry: bool) -> None:
    """Refuse forms that cannot be written; `source` says where they were given. Raises ConfigError."""
    forms = forms_of(wire.facet_events or "")
    if forms is None:
        raise ConfigError(source, "wire.facet_events", wire.facet_events, FACET_EVENTS_FORM)
    if has_registry:
        return
    for key, found, used in (
        ("wire.events", wire.events, [wire.events]),
        ("wire.facet_events", wire.facet_events, list(forms.values())),
    ):
        if "confluent" in used:
            raise ConfigError(source, key, found, "registry.url to be set as well: the registry that has the schemas")


def _ordered(forms: dict[str, str]) -> list[tuple[str, str]]:
    return sorted(forms.items(), key=lambda item: (not {"*", "?"} & set(item[0]), len(item[0])), reverse=True)
