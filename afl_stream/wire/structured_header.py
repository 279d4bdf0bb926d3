"""The header `afl`: all that a record's headers say about it, as one JSON object.

It is a CloudEvent in the JSON format without its data: `id`, `type`, `source`, `time` and `subject` are attributes of
CloudEvents, `afl` (the version of this form), `versions` (the three versions, separated by slashes) and `attempt` are
extensions. Records of earlier releases, and those of deployments that keep `wire.headers = "cloudevents"`, have a
header for each of them. Readers here take either form; where a record has both, a header of its own wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any, Final

from afl_stream.errors import NewerFormat, Reason, Unreadable
from afl_stream.wire.json_values import read_json_value
from afl_stream.wire.versions import CURRENT, HEADERS, check_version

#: Part of the wire: never change it.
STRUCTURED_HEADER: Final = "afl"
#: The version of the form. A reader refuses to go on past a higher one.
FORM: Final = 1
SPEC_VERSION: Final = "1.0"
ATTEMPT_HEADER: Final = "afl_attempt"

#: How the header begins in records of this release: readers of most records compare it and look at nothing else.
CURRENT_START: Final = f'{{"afl":{FORM},"versions":"{"/".join(CURRENT)}",'.encode()

#: The members that are headers of their own in the other form, by the names of those headers.
_MEMBERS: Final[Mapping[str, str]] = {
    **{f"ce_{name}": name for name in ("specversion", "id", "type", "source", "time", "subject")},
    ATTEMPT_HEADER: "attempt",
}
_VERSIONS: Final = tuple(HEADERS)
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class HeaderForm(StrEnum):
    """How the attributes of a record are written: in one header, or each in a header by CloudEvents' Kafka binding."""

    COMPACT = "compact"
    CLOUDEVENTS = "cloudevents"


#: Returns a text as JSON writes it, quotes included. It is the json module's own, without a call in between.
quoted: Final[Callable[[str], str]] = encode_basestring


def start_of(*, event_type: str, source: str, versions: tuple[str, ...] = CURRENT) -> str:
    """Return the header's first members, which are the same in all records of one type and sender."""
    return (
        f'{{"afl":{FORM},"versions":{quoted("/".join(versions))},"specversion":"{SPEC_VERSION}",'
        f'"source":{quoted(source)},"type":{quoted(event_type)},'
    )


@lru_cache(maxsize=256)  # All records of one batch are of the same moment.
def rfc3339(at_ms: int) -> str:
    """Return a time as RFC 3339 writes it, in UTC and with milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def attributes_of(content: bytes | None) -> Mapping[str, str]:
    """Return what the header says, by the names of the headers of the other form. Empty for what is no such header."""
    try:
        return _attributes(content or b"")
    except Unreadable:
        return _NOTHING


def check_structured(content: bytes) -> None:
    """Check the versions in the header. Raises NewerFormat, and Unreadable (BAD_HEADERS, TOO_OLD, WRONG_TYPE)."""
    if content.startswith(CURRENT_START):
        return
    members = _members(content)
    form = members.get("afl", FORM)
    if not isinstance(form, int) or isinstance(form, bool):
        raise Unreadable(Reason.BAD_HEADERS, f"header {STRUCTURED_HEADER}: its version {str(form)[:40]!r} is no number")
    if form > FORM:
        raise NewerFormat(f"header {STRUCTURED_HEADER} {form}", str(FORM))
    for name, found in _attributes(content).items():
        if name in HEADERS:
            check_version(HEADERS[name], found)


def header(headers: Iterable[tuple[str, bytes | None]], name: str) -> str | None:
    """Return the last header of this name as text, as Kafka clients do; bytes that are not UTF-8 are replaced.

    An attribute without a header of its own (`ce_id`, `afl_attempt`, ...) is taken from the structured header.
    """
    found = structured = None
    for key, value in headers:
        if value is not None:
            if key == name:
                found = value
            elif key == STRUCTURED_HEADER:
                structured = value
    if found is not None:
        return found.decode("utf-8", "replace")
    return None if structured is None else attributes_of(structured).get(name)


class NamedHeaders(Mapping[str, "bytes | None"]):
    """The headers of a record by name, with those that the structured header has instead of them.

    The structured header is read when a name is asked for that is no header of its own.
    """

    __slots__ = ("_all", "_own")

    def __init__(self, headers: Iterable[tuple[str, bytes | None]]) -> None:
        self._own = dict(headers)
        self._all: dict[str, bytes | None] | None = None

    def __getitem__(self, name: str) -> bytes | None:
        return self._own[name] if name in self._own else self._with_attributes()[name]

    def __iter__(self) -> Any:
        return iter(self._with_attributes())

    def __len__(self) -> int:
        return len(self._with_attributes())

    def __repr__(self) -> str:
        return repr(self._with_attributes())

    def _with_attributes(self) -> dict[str, bytes | None]:
        if self._all is None:
            attributes = attributes_of(self._own.get(STRUCTURED_HEADER))
            self._all = {**{name: text.encode() for name, text in attributes.items()}, **self._own}
        return self._all


@lru_cache(maxsize=64)  # One record is asked about several times.
def _attributes(content: bytes) -> Mapping[str, str]:
    members = _members(content)
    found: dict[str, str] = {}
    for name, member in _MEMBERS.items():
        value = members.get(member)
        if isinstance(value, str) or (type(value) is int and member == "attempt"):
            # JSON can say half of a surrogate pair, which is no text.
            found[name] = str(value).encode("utf-8", "replace").decode()
    versions = members.get("versions")
    if versions is not None:
        listed = versions.split("/") if isinstance(versions, str) else [str(versions)[:40]]
        if len(listed) < len(_VERSIONS):
            # Which is which cannot be said.
            raise Unreadable(Reason.BAD_HEADERS, f"header {STRUCTURED_HEADER}: versions {str(versions)[:40]!r}")
        found.update(zip(_VERSIONS, listed, strict=False))
    return MappingProxyType(found)


def _members(content: bytes) -> Mapping[str, object]:
    try:
        members = read_json_value(content)
    except Unreadable as error:
        raise Unreadable(Reason.BAD_HEADERS, f"header {STRUCTURED_HEADER}: {error}") from error
    if not isinstance(members, dict):
        raise Unreadable(Reason.BAD_HEADERS, f"header {STRUCTURED_HEADER} is no JSON object")
    return members
