"""The program and workflow that a caller means: a declaration, a name, a whole program, or pieces of one."""

from __future__ import annotations

from collections.abc import Mapping

from afl.compiled.program import CompiledProgram, Node, ProgramError
from afl.engine.model.store import Store
from afl.engine.planning.known_programs import KNOWN_PROGRAMS


def program_of(workflow: Node | str, program: Node | CompiledProgram | None) -> tuple[CompiledProgram, str]:
    """Return the program to run, and the qualified name of the workflow in it.

    A declaration that the program lacks is added to it, at top level. Raises UnknownName, AmbiguousName.
    """
    if isinstance(workflow, str):
        if program is None:
            raise ProgramError(f"workflow {workflow!r} is a name: give the program that declares it")
        known = compiled(program)
        return known, known.workflow(workflow).qualified_name
    if not isinstance(workflow, Mapping):
        found = type(workflow).__name__
        raise ProgramError(f"a workflow is given by its name, or by its declaration as a JSON object, found {found}")
    if program is None:
        alone = KNOWN_PROGRAMS.made_of((workflow,), lambda: _program([_typed(workflow)]), "workflow")
        return alone, alone.workflows()[0].qualified_name
    known = compiled(program)
    name = str(workflow.get("name", ""))
    found = [d for d in known.workflows() if d.node is workflow]
    found = found or [d for d in known.workflows() if d.name == name and _same(d.node, workflow)]
    if found:
        return known, found[0].qualified_name
    return KNOWN_PROGRAMS.made_of((workflow, known.tree), lambda: _joined(known.tree, workflow), "joined"), name


def compiled(program: Node | CompiledProgram) -> CompiledProgram:
    """Return the caller's program, ready for lookups of names."""
    if isinstance(program, CompiledProgram):
        return program
    if not isinstance(program, Mapping):
        raise ProgramError(
            f"a program is given as a JSON object, found {type(program).__name__}; "
            "compile_text(...).program_json is one, and emit_dict(tree) makes one"
        )
    return KNOWN_PROGRAMS.of(program)


def stored_program(store: Store, fingerprint: str) -> CompiledProgram | None:
    """Return the stored program of a fingerprint, with its source places; None when there is none.

    Raises the errors of CompiledProgram.stored, and VersionMismatchError.
    """
    text = store.load_program(fingerprint)
    return None if text is None else CompiledProgram.stored(fingerprint, text, store.load_annotations(fingerprint))


def is_pinned_by(program: CompiledProgram, fingerprint: str, store: Store) -> bool:
    """Say whether a run that is pinned to this fingerprint runs this program.

    Earlier releases gave the same program another fingerprint for each layout of its source.
    """
    if fingerprint in (program.fingerprint, program.behaviour):
        return True
    text = store.load_program(fingerprint)
    try:
        return text is not None and CompiledProgram.stored(fingerprint, text).behaviour == program.behaviour
    except ProgramError:
        return False


def _program(declarations: list[Node]) -> CompiledProgram:
    return CompiledProgram({"type": "Program", "declarations": declarations})


def _joined(tree: Node, workflow: Node) -> CompiledProgram:
    return CompiledProgram({**tree, "declarations": [*(tree.get("declarations") or ()), _typed(workflow)]})


def _typed(workflow: Node) -> Node:
    return workflow if "type" in workflow else {**workflow, "type": "WorkflowDecl"}


def _same(declared: Mapping[str, object], given: Mapping[str, object]) -> bool:
    """Say whether two declarations are equal apart from their type, which hand-written ones leave out."""
    return {k: v for k, v in declared.items() if k != "type"} == {k: v for k, v in given.items() if k != "type"}
