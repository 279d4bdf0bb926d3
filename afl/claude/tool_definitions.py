"""Event facets as tools for a language model: their purpose, and the JSON Schemas of their parameters and returns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from afl.compiled.program import SCHEMAS, AmbiguousName, CompiledProgram, Declaration, Node
from afl.core.text.printable import bounded
from afl.core.types import BUILTIN_TYPES, type_name

#: The longest name of a tool that the API accepts.
_LONGEST_NAME: Final = 128
#: Names beside those that are built in: programs written by hand know them, as attributes do.
_CONTAINERS: Final[Mapping[str, Mapping[str, str]]] = {"List": {"type": "array"}, "Map": {"type": "object"}}


@dataclass
class ToolDefinition:
    """One event facet as a tool.

    `input_schema` is made from the facet's returns: a model that uses the tool gives the facet's answer. `param_schema`
    is made from its parameters, for a model that asks while a handler answers. `name` is the facet's short name, unless
    another facet has it too; `facet_name` is the qualified one.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    param_names: list[str]
    return_names: list[str]
    prompt_block: Node | None = None
    facet_name: str = ""
    param_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    @classmethod
    def of(cls, tool: ToolDefinition | Mapping[str, Any]) -> ToolDefinition:
        """Return a tool that may also be written as a mapping with these fields, as the Messages API accepts them.

        It has a name and an `input_schema`; without declared returns, the properties of that are the returns, and other
        parts of it are ignored. Raises ValueError that names the missing field.
        """
        if isinstance(tool, ToolDefinition):
            return tool
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ValueError(f"a tool is a ToolDefinition or a mapping with a name, found {bounded(repr(tool), 80)}")
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping):
            raise ValueError(f"the tool {name} has no input_schema, which is a JSON Schema; it has {', '.join(tool)}")
        made = cls(
            name=name,
            description=str(tool.get("description") or ""),
            input_schema=dict(schema),
            param_names=list(tool.get("param_names") or ()),
            return_names=list(tool.get("return_names") or schema.get("properties") or ()),
            prompt_block=tool.get("prompt_block"),
            facet_name=str(tool.get("facet_name") or ""),
        )
        # A tool that runs here takes what its schema says; for a facet that is the schema of its parameters.
        made.param_schema = dict(tool.get("param_schema") or schema)
        return made

    def is_named(self, name: str) -> bool:
        """Say whether a name is this tool's, or that of its facet."""
        return name in (self.name, self.facet_name)


def tool_definitions(program: CompiledProgram | Node | None) -> list[ToolDefinition]:
    """Return one tool for each event facet of a program, in the order of the program."""
    if program is None:
        return []
    known = program if isinstance(program, CompiledProgram) else CompiledProgram(program)
    facets = known.event_facets()
    names = _tool_names([facet.qualified_name for facet in facets])
    return [_tool(known, facet, names[facet.qualified_name]) for facet in facets]


def _tool_names(facets: Sequence[str]) -> dict[str, str]:
    """Return unique, valid names of tools by facet: short ones where those are unique."""
    short = [facet.rpartition(".")[2] for facet in facets]
    names: dict[str, str] = {}
    for facet, short_name in zip(facets, short, strict=True):
        wanted = short_name if short.count(short_name) == 1 else facet
        wanted = re.sub(r"[^A-Za-z0-9_-]", "_", wanted)[:_LONGEST_NAME]
        name, number = wanted, 2
        while name in names.values():
            name = f"{wanted[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
            number += 1
        names[facet] = name
    return names


def _tool(program: CompiledProgram, facet: Declaration, name: str) -> ToolDefinition:
    doc = facet.node.get("doc") or {}
    return ToolDefinition(
        name=name,
        description=_description(facet, doc),
        input_schema=_object(program, facet, facet.returns, doc.get("returns") or ()),
        param_names=[str(param["name"]) for param in facet.params],
        return_names=[str(given["name"]) for given in facet.returns],
        prompt_block=facet.prompt,
        facet_name=facet.qualified_name,
        param_schema=_object(program, facet, facet.params, doc.get("params") or ()),
    )


def _description(facet: Declaration, doc: Node) -> str:
    takes = ", ".join(f"{param['name']}: {type_name(param.get('type'))}" for param in facet.params)
    gives = ", ".join(f"{given['name']}: {type_name(given.get('type'))}" for given in facet.returns)
    signature = f"{facet.qualified_name}({takes})" + (f" => ({gives})" if gives else "")
    description = str(doc.get("description") or "").strip()
    return f"{description}\n\n{signature}" if description else f"Event facet {signature}"


def _object(
    program: CompiledProgram, facet: Declaration, slots: Iterable[Node], docs: Iterable[Node]
) -> dict[str, Any]:
    """Return the schema of an object with these parameters or returns; those with a default may be left out."""
    descriptions = {str(doc.get("name")): str(doc.get("description") or "") for doc in docs}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for slot in slots:
        name = str(slot["name"])
        properties[name] = _type(program, facet, slot.get("type"), ())
        if descriptions.get(name):
            properties[name]["description"] = descriptions[name]
        if "default" not in slot:
            required.append(name)
        elif _is_null(slot["default"]):
            properties[name] = _or_null(properties[name])
    return {"type": "object", "properties": properties, "required": required}


def _is_null(default: object) -> bool:
    return default is None or (isinstance(default, Mapping) and default.get("type") == "Null")


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional value: where the default is null, a model may say so."""
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _type(
    program: CompiledProgram, around: Declaration, declared: object, inside: tuple[Declaration, ...]
) -> dict[str, Any]:
    """Return the schema of a declared type, as written inside a declaration; `inside` are the schemas around it."""
    if isinstance(declared, Mapping):
        return {"type": "array", "items": _type(program, around, declared.get("elementType"), inside)}
    name = str(declared)
    schema = _schema(program, around, name)
    if schema is None:
        builtin = BUILTIN_TYPES.get(name)
        return dict(builtin.json_schema if builtin else _CONTAINERS.get(name, {"type": "string"}))
    if schema in inside:
        return {"type": "object"}
    fields = {str(f["name"]): _type(program, schema, f.get("type"), (*inside, schema)) for f in schema.fields}
    made: dict[str, Any] = {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
    description = (schema.node.get("doc") or {}).get("description")
    if description:
        made["description"] = str(description)
    return made


def _schema(program: CompiledProgram, around: Declaration, name: str) -> Declaration | None:
    try:
        return program.resolve_in(around, name, SCHEMAS, "schema")
    except AmbiguousName:
        return None
