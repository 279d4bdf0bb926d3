"""Which program and workflow a caller means: a declaration, a name, a whole program, or pieces of one."""

from __future__ import annotations

from collections.abc import Mapping

from afl.compiled import CompiledProgram, Node, ProgramError


def program_of(workflow: Node | str, program: Node | CompiledProgram | None) -> tuple[CompiledProgram, str]:
    """The program to run, and the qualified name of the workflow in it.

    A declaration that the program does not hold is added to it, at top level. Raises UnknownName, AmbiguousName.
    """
    if isinstance(workflow, str):
        if program is None:
            raise ProgramError(f"workflow {workflow!r} is a name: give the program that declares it")
        compiled = _compiled(program)
        return compiled, compiled.workflow(workflow).qualified_name
    if program is None:
        compiled = CompiledProgram({"type": "Program", "declarations": [_typed(workflow)]})
        return compiled, compiled.workflows()[0].qualified_name
    compiled = _compiled(program)
    name = str(workflow.get("name", ""))
    found = [d for d in compiled.workflows() if d.node is workflow]
    found = found or [d for d in compiled.workflows() if d.name == name and _same(d.node, workflow)]
    if found:
        return compiled, found[0].qualified_name
    tree = {**compiled.tree, "declarations": [*(compiled.tree.get("declarations") or ()), _typed(workflow)]}
    return CompiledProgram(tree), name


def _compiled(program: Node | CompiledProgram) -> CompiledProgram:
    return program if isinstance(program, CompiledProgram) else CompiledProgram(program)


def _typed(workflow: Node) -> Node:
    return workflow if "type" in workflow else {**workflow, "type": "WorkflowDecl"}


def _same(declared: Mapping[str, object], given: Mapping[str, object]) -> bool:
    """Whether two declarations are one, their type aside: hand-written ones leave it out."""
    return {k: v for k, v in declared.items() if k != "type"} == {k: v for k, v in given.items() if k != "type"}
