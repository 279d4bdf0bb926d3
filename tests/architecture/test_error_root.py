"""Everything that is raised on purpose is an AFLError: one `except` is enough for those who use the distribution."""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import afl
import afl.errors
import afl_stream
import afl_stream.errors
from afl.core.errors import AFLError
from afl.runtime import errors as runtime_errors
from afl.scripts.executor import ScriptError
from afl_stream.transport import TransportError

ROOT: Final = Path(__file__).parents[2]
#: What never leaves the code around it, and what becomes of it there: users never see one.
SIGNALS: Final = {
    "afl.core.values.Refused": "becomes a ValueRefused once the path to the value is known",
    "afl.engine.values.declared.Unsure": "the quick copy of a value gives up, and the full check looks",
    "afl.engine.values.sizes.TooDeep": "becomes a ValueTooDeep, which names the value",
    "afl.engine.values.operators.OperationError": "becomes an EvaluationError, which names the expression",
    "afl.engine.execution.waits.InnerFailure": "carries the first cause of a failure up the tree of steps",
    "afl.engine.model.step_rows.StillUnread": "a complete step was left in its store, and is read for this expression",
    "afl.engine.planning.known_programs._NotCopied": "a tree is not plain JSON, and is read as JSON text",
    "afl.stores.sqlite.waiting.HeldInOlderFormat": "a locked file like others; becomes a StoreUnavailable",
    "afl.formatting.reader.UnknownConstruct": "becomes a FormatRefused, which names the source",
    "afl.scripts.frames.FramesEnded": "a worker's pipe has ended: the pool starts another one",
    "afl.scripts.frames.FrameTooLarge": "becomes a ScriptFailed",
    "afl.scripts.frames.FrameDeadline": "becomes a ScriptFailed",
    "afl.scripts.zygote_process.ZygoteLost": "becomes a ScriptWorkerUnavailable after another try",
    "afl.scripts.interpreter._Refused": "ends the script in its own process, and becomes a ScriptFailed",
    "afl.stores.mongo.connection.BulkRefused": "a bulk of writes lost against others: the commit judges by which",
    "afl.workers.service.flow_programs._NotStored": "a flow's program is not in the store yet: it is compiled",
    "afl.core.monitoring.status_server._RequestTooLarge": "becomes the answer 431 to the request",
    "afl.workers.task_work._LeftToOthers": "the next process that claims the task tries it again",
    "afl_stream.embedded.faults.Swallowed": "a test's stand-in for a reply that never comes",
    "afl_stream.evaluator.operator_commands.BatchOfItsOwn": "a command is applied in the batch after this one",
}
#: What ends the process: nothing that catches exceptions may stop it.
ENDS: Final = {
    "afl.core.process.crashes.Crash": "the death of the process, as tests make it",
    "afl.core.process.signals.EndedBySignal": "a signal, as Python's own KeyboardInterrupt is",
}


@cache
def modules() -> tuple[ModuleType, ...]:
    names = [
        found.name
        for package in (afl, afl_stream)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not found.name.endswith("__main__")
    ]
    return tuple(importlib.import_module(name) for name in names)


def ours() -> dict[str, type[BaseException]]:
    """Every class of exceptions that a module of the distribution defines."""
    found: dict[str, type[BaseException]] = {}
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == module.__name__:
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def caught_names(package: Path) -> Iterator[str]:
    """Return the names of all that is caught in a package, by `except` or by `suppress`."""
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                yield from (ast.unparse(kind).rpartition(".")[2] for kind in kinds)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
                yield from (ast.unparse(kind).rpartition(".")[2] for kind in node.args)


def test_every_error_is_under_the_root_or_says_why_not() -> None:
    found = {name: kind for name, kind in ours().items() if not issubclass(kind, AFLError)}

    assert sorted(name for name, kind in found.items() if issubclass(kind, Exception)) == sorted(SIGNALS)
    assert sorted(name for name, kind in found.items() if not issubclass(kind, Exception)) == sorted(ENDS)


def test_every_signal_is_caught_by_its_name() -> None:
    caught = {distribution: set(caught_names(ROOT / distribution)) for distribution in ("afl", "afl_stream")}

    assert [name for name in SIGNALS if name.rpartition(".")[2] not in caught[name.partition(".")[0]]] == []


def test_errors_that_were_under_a_builtin_still_are() -> None:
    found = ours()
    for name, builtin in {
        "afl.config.ConfigMissing": FileNotFoundError,
        "afl.config.WrongSetting": ValueError,
        "afl.core.handlers.modules.FunctionMissing": AttributeError,
        "afl.core.handlers.modules.ModuleNotLoaded": ImportError,
        "afl.core.handlers.modules.NotAFunction": TypeError,
        "afl.core.json_objects.DuplicateKey": ValueError,
        "afl.core.json_objects.NotJson": ValueError,
        "afl.core.values.ValueRefused": ValueError,
        "afl.errors.SourceMissing": FileNotFoundError,
        "afl.loader.SourceNotFound": ValueError,
        "afl.workers.service.flow_programs.FlowNotRunnable": builtins.RuntimeError,
        "afl.workers.service.workflow_starts.WorkflowNotStarted": builtins.RuntimeError,
    }.items():
        assert issubclass(found[name], builtin)
        assert issubclass(found[name], AFLError)


@pytest.mark.parametrize(
    "root",
    [afl.errors.AFLError, runtime_errors.RuntimeError, afl_stream.errors.StreamError, TransportError, ScriptError],
)
def test_the_roots_of_the_parts_are_under_it(root: type[Exception]) -> None:
    assert issubclass(root, AFLError)


def test_the_engines_own_runtime_error_is_not_the_builtin() -> None:
    assert not issubclass(runtime_errors.RuntimeError, builtins.RuntimeError)
