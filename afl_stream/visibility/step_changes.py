"""What differs between two programs step by step: in the bodies of the workflows and facets that both declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from afl.compiled.program import CompiledProgram, Declaration, Node, blocks_of
from afl.engine.expressions.expression import expression_text
from afl_stream.visibility.programs import Difference, plain_node

#: Characters that are shown of a call.
_SHOWN_CHARS: Final = 160

#: The place of a part in its declaration, by names and numbers of blocks.
_Key = tuple[str, ...]


class _Part(NamedTuple):
    """A step, or what else a body is made of: what it is, its path, and how it is written."""

    kind: str
    path: str
    text: str
    #: What has to be equal for nothing to differ.
    content: object


def compare_steps(one: CompiledProgram, other: CompiledProgram) -> list[Difference]:
    """Return what differs in the bodies of declarations that both programs have, by the paths of their steps.

    A `kind` is step, yield, log, assert, foreach, when, case, or script. Steps are the same by name, all else by place.
    """
    found: list[Difference] = []
    for name in sorted({*one.declarations} & {*other.declarations}):
        was, now = one.declarations[name], other.declarations[name]
        if not now.is_library:
            found += _changes(dict(_parts(was)), dict(_parts(now)))
    return found


def _changes(was: Mapping[_Key, _Part], now: Mapping[_Key, _Part]) -> Iterator[Difference]:
    for key, part in now.items():
        before = was.get(key)
        if before is None:
            yield Difference(change="added", kind=part.kind, name=part.path, after=part.text)
        elif before.content != part.content:
            yield Difference(change="changed", kind=part.kind, name=part.path, before=before.text, after=part.text)
    for key, part in was.items():
        if key not in now:
            yield Difference(change="removed", kind=part.kind, name=part.path, before=part.text)


def _parts(declaration: Declaration) -> Iterator[tuple[_Key, _Part]]:
    path = declaration.qualified_name
    if declaration.pre_script is not None:
        yield ("script",), _script(path, declaration.pre_script)
    yield from _of_body(declaration.node, path, ())


def _of_body(owner: Node, path: str, key: _Key) -> Iterator[tuple[_Key, _Part]]:
    for number, block in enumerate(blocks_of(owner.get("body"))):
        yield from _of_block(block, path, (*key, f"andThen {number}"))
    if isinstance(catch := owner.get("catch"), Mapping):
        yield from _of_block(catch, f"{path}.catch", (*key, "catch"))


def _of_block(block: Node, path: str, key: _Key) -> Iterator[tuple[_Key, _Part]]:
    if isinstance(foreach := block.get("foreach"), Mapping):
        text = f"foreach {foreach.get('variable')} in {expression_text(foreach.get('iterable'))}"
        yield (*key, "foreach"), _Part("foreach", path, text, plain_node(foreach))
    if isinstance(script := block.get("script"), Mapping):
        yield (*key, "script"), _script(path, script)
    if isinstance(when := block.get("when"), Mapping):
        for number, case in enumerate(when.get("cases") or ()):
            of_case, condition = f"{path}.case[{number}]", case.get("condition")
            text = "_" if condition is None else expression_text(condition)
            yield (*key, f"case {number}"), _Part("case", of_case, text, plain_node(condition))
            yield from _of_block(case, of_case, (*key, f"case {number}"))
        return
    inner = block["block"] if isinstance(block.get("block"), Mapping) else block
    numbers: dict[str, int] = {}
    for step in inner.get("steps") or ():
        if step.get("type", "StepStmt") == "StepStmt":
            yield from _of_step(step, path, key)
            continue
        kind = "log" if step.get("type") == "SysLogStmt" else "assert"
        numbers[kind] = numbers.get(kind, 0) + 1
        yield (*key, f"sys {kind} {numbers[kind]}"), _Part(kind, f"{path}.sys.{kind}", _system(step), plain_node(step))
    yields = inner.get("yields") or ([inner["yield"]] if inner.get("yield") else [])
    for number, given in enumerate(yields):
        call = given.get("call") or {}
        yield (*key, f"yield {number}"), _Part("yield", f"{path}.yield", _call(call), plain_node(call))


def _of_step(step: Node, path: str, key: _Key) -> Iterator[tuple[_Key, _Part]]:
    name, call = str(step.get("name")), step.get("call") or {}
    own = (*key, f"step {name}")
    yield own, _Part("step", f"{path}.{name}", _call(call), plain_node(call))
    yield from _of_body(step, f"{path}.{name}", own)


def _script(path: str, node: Node) -> _Part:
    code = str(node.get("code", ""))
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    return _Part("script", path, _cut(first), code)


def _system(step: Node) -> str:
    return _cut(_arguments(step) or expression_text(step.get("condition")))


def _call(call: Node) -> str:
    mixins = "".join(f" with {each.get('target')}({_arguments(each)})" for each in call.get("mixins") or ())
    return _cut(f"{call.get('target')}({_arguments(call)}){mixins}")


def _arguments(call: Node) -> str:
    return ", ".join(f"{each.get('name')} = {expression_text(each.get('value'))}" for each in call.get("args") or ())


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
