"""Check the text of a script without running it: its problems, and the names that it puts into `result`."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from afl.scripts.vocabulary import MODULES, is_missing_builtin, is_refused_name, is_refused_text

#: The file name of a script's code, by which a traceback's lines are recognised.
SCRIPT_FILE = "<script>"


class ProblemKind(StrEnum):
    """The kinds of problems in a script's text."""

    SYNTAX = "syntax"
    IMPORT = "import"
    ACCESS = "access"
    CLASS = "class"
    #: A builtin that scripts do not have. Only a run that reaches it fails, so it is at most a warning.
    BUILTIN = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptProblem:
    """One problem; `line` and `column` are 1-based places in the script's text."""

    kind: ProblemKind
    message: str
    line: int
    column: int

    @property
    def refuses(self) -> bool:
        """Return whether a script with this problem is refused before it runs."""
        return self.kind is not ProblemKind.BUILTIN

    @property
    def error_type(self) -> str:
        """The type of the exception that Python would raise for it, else `ScriptError`."""
        return {
            ProblemKind.SYNTAX: "SyntaxError",
            ProblemKind.IMPORT: "ImportError",
            ProblemKind.BUILTIN: "NameError",
        }.get(self.kind, "ScriptError")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCheck:
    """The result of checking a script's text.

    `assigned` are the names that it sets by `result["name"] = ...`. `result_is_open` says that it also uses `result` in
    another way (passes it on, rebinds it, computes a key), so that it may set further names.
    """

    problems: tuple[ScriptProblem, ...]
    assigned: frozenset[str]
    result_is_open: bool
    tree: ast.Module | None

    @property
    def refusal(self) -> ScriptProblem | None:
        """The first problem, in the order of the text, that keeps the script from running."""
        return next((problem for problem in self.problems if problem.refuses), None)


def check_script(code: str) -> ScriptCheck:
    """Check the text of a script. The text is not run, and no text makes this raise."""
    try:
        with warnings.catch_warnings():
            # `"\d"` or `x is 1` warn; on the engine's stderr that would not help.
            warnings.simplefilter("ignore")
            tree = ast.parse(code, SCRIPT_FILE)
            nodes = list(ast.walk(tree))
    except SyntaxError as error:
        return _unreadable(error.msg or "invalid syntax", error.lineno or 1, error.offset or 1)
    except (ValueError, RecursionError, MemoryError) as error:
        # A null byte, or nesting that is too deep for Python's own parser.
        return _unreadable(str(error) or "the code is nested too deeply", 1, 1)
    problems = [*_refusals(nodes), *_missing_builtins(nodes)]
    if not code.isascii():
        lines = code.split("\n")
        problems = [_in_characters(problem, lines) for problem in problems]
    problems.sort(key=lambda problem: (problem.line, problem.column))
    assigned, result_is_open = _result_names(nodes)
    return ScriptCheck(problems=tuple(problems), assigned=assigned, result_is_open=result_is_open, tree=tree)


def _unreadable(message: str, line: int, column: int) -> ScriptCheck:
    problem = ScriptProblem(kind=ProblemKind.SYNTAX, message=message, line=max(line, 1), column=max(column, 1))
    return ScriptCheck(problems=(problem,), assigned=frozenset(), result_is_open=True, tree=None)


def _in_characters(problem: ScriptProblem, lines: Sequence[str]) -> ScriptProblem:
    """Return the same problem with its column in characters: Python's tree counts bytes."""
    line = lines[problem.line - 1] if problem.line <= len(lines) else ""
    before = line.encode(errors="surrogatepass")[: problem.column - 1]
    return replace(problem, column=len(before.decode(errors="ignore")) + 1)


def _problem(kind: ProblemKind, message: str, node: ast.AST) -> ScriptProblem:
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return ScriptProblem(kind=kind, message=message, line=line, column=column + 1)


def _refusals(nodes: list[ast.AST]) -> Iterator[ScriptProblem]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name not in MODULES:
                    yield _import_problem(alias.name, node)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            if name not in MODULES:
                yield _import_problem(name, node)
        elif isinstance(node, ast.ClassDef):
            yield _problem(ProblemKind.CLASS, "a script cannot define classes", node)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and is_refused_text(node.value):
                yield _problem(ProblemKind.ACCESS, "a format may not reach for special attributes", node)
            continue
        for name in _identifiers(node):
            if is_refused_name(name):
                yield _problem(ProblemKind.ACCESS, f"{name} may not be used in a script", node)


def _import_problem(name: str, node: ast.AST) -> ScriptProblem:
    allowed = ", ".join(sorted(MODULES))
    return _problem(ProblemKind.IMPORT, f"{name} cannot be imported; a script may import {allowed}", node)


def _identifiers(node: ast.AST) -> Iterator[str]:
    """Yield every name in a node's own fields.

    All fields count: attributes are read by `x.name`, but also by the patterns of `match`.
    """
    for _, value in ast.iter_fields(node):
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, str):
                    yield element


def _missing_builtins(nodes: list[ast.AST]) -> Iterator[ScriptProblem]:
    own = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ExceptHandler):
            own.add(node.name or "")
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.alias):
            own.add(node.asname or node.name)
        elif isinstance(node, ast.MatchAs | ast.MatchStar):
            own.add(node.name or "")
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in own and is_missing_builtin(node.id):
            yield _problem(ProblemKind.BUILTIN, f"{node.id} is not available in a script", node)


def _result_names(nodes: list[ast.AST]) -> tuple[frozenset[str], bool]:
    """Return the names set by constant subscripts of `result`, and whether `result` has other uses."""
    assigned, plain = set(), set()
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "result":
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if isinstance(key, str) and not isinstance(node.ctx, ast.Del):
                plain.add(node.value)
                if isinstance(node.ctx, ast.Store):
                    assigned.add(key)
    is_open = any(
        "result" in _identifiers(node) and node not in plain for node in nodes if not isinstance(node, ast.Constant)
    )
    return frozenset(assigned), is_open
