"""Hints for types and values that are spelled as in other languages."""

from __future__ import annotations

from typing import Final

#: What other languages call the types that are built in.
TYPE_WORDS: Final = {
    "String": "string str text char varchar",
    "Int": "int integer i32 int32 short byte",
    "Long": "long i64 int64 bigint",
    "Double": "double float f64 float64 real number num decimal bigdecimal",
    "Boolean": "boolean bool",
    "Json": "json any object map dict dictionary record struct hash variant",
}
#: Types that AFL lacks, with the form in which their values travel.
_CARRIED: Final = {
    **dict.fromkeys(
        ["datetime", "date", "time", "timestamp", "instant", "duration"],
        "there is no type for points in time: give a String in ISO 8601, or a Long of milliseconds",
    ),
    **dict.fromkeys(["uuid", "guid"], "ids travel as String"),
    **dict.fromkeys(["bytes", "binary", "blob"], "bytes travel as a String in base64, or as the name of a file"),
    **dict.fromkeys(["list", "array", "seq", "set", "vector", "tuple"], "a list type is written [String]"),
    **dict.fromkeys(["optional", "option", "maybe", "nullable"], "a parameter that may be left out has a default"),
    **dict.fromkeys(["void", "unit", "none", "null"], "a facet without results has no => at all"),
}
_TYPE_OF: Final = {word: name for name, words in TYPE_WORDS.items() for word in words.split()}

_VALUES: Final = {
    "True": "true",
    "TRUE": "true",
    "False": "false",
    "FALSE": "false",
    **dict.fromkeys(["None", "NULL", "Null", "nil", "undefined", "NaN"], "null"),
}


_SELVES: Final = frozenset(
    ["this", "self", "input", "inputs", "params", "parameters", "args", "arguments", "ctx", "context"]
)


def is_self(name: str, declaration: str) -> bool:
    """Say whether a name may stand for the parameters of the declaration around it: this.x, input.x, Pay.x."""
    return name in _SELVES or name == declaration


def type_hint(name: str) -> str | None:
    """Return what to write in place of a type's name, where another language has a type of that name."""
    word = name.lower()
    if word in _TYPE_OF:
        return f"did you mean {_TYPE_OF[word]}?"
    return _CARRIED.get(word)


def value_hint(name: str) -> str | None:
    """Return what to write in place of a name that is a value in another language."""
    value = _VALUES.get(name)
    return f"did you mean {value}?" if value is not None else None
