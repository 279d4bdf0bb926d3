"""The stored form of entities: a dataclass as a JSON document, and back by its type hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Final, TypeVar, cast, get_args, get_origin, get_type_hints

from afl.core.json_encoder import make_encoder
from afl.engine.versions import VERSIONS, check_versions
from afl.stores.documents import decode_value, to_bytes

E = TypeVar("E")


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} can't be stored: {value!r:.100}")


_encode_text: Final = make_encoder(_plain)


def encode_entity(entity: object) -> bytes:
    """Return the stored form of an entity, nested ones included. Raises TypeError for data that JSON lacks."""
    return to_bytes(_encode_text([VERSIONS, entity]))


def decode_entity(kind: type[E], content: bytes) -> E:
    """Return the entity that `encode_entity` wrote.

    A missing field gets its default, and unknown fields are ignored. Raises VersionMismatchError when a newer runtime
    wrote it, ValueError when it is not a document.
    """
    document = decode_value(content)
    if not isinstance(document, list) or len(document) != 2:
        raise ValueError(f"not the document of an entity: {content!r:.60}")
    check_versions(document[0])
    return cast(E, _builder(cast(type, kind))(document[1]))


@cache
def _builder(kind: type) -> Callable[[object], object]:
    """Return a function that makes an object of a dataclass from its fields by name."""
    hints = get_type_hints(kind)
    converters = {field.name: _converter(hints[field.name]) for field in fields(kind)}
    nested = {name: convert for name, convert in converters.items() if convert is not None}

    def build(document: object) -> object:
        if not isinstance(document, dict):
            raise ValueError(f"not the fields of a {kind.__name__}: {document!r:.60}")
        values = {name: value for name, value in document.items() if name in converters}
        for name, convert in nested.items():
            if values.get(name) is not None:
                values[name] = convert(values[name])
        return kind(**values)

    return build


def _converter(hint: object) -> Callable[[object], object] | None:
    """Return a function that makes a field's value from its plain form; None where the plain form is the value."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _builder(hint)
    arguments = get_args(hint)
    if get_origin(hint) is list and (element := _converter(arguments[0])) is not None:
        make = element
        return lambda values: [make(value) for value in cast(list[object], values)]
    # An optional type: its part besides None.
    return next((found for argument in arguments if (found := _converter(argument)) is not None), None)
