"""The command `start --many`: the starts of a file, one JSON object a line."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Final

from afl.compiled.program import CompiledProgram
from afl.core.json_objects import DuplicateKey, NotJson, read_json
from afl.core.text.printable import printable
from afl.core.values import ValueRefused, plain_values
from afl.engine.model.plan import WorkflowPlan
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.value_checks import INPUTS, check_inputs
from afl_stream.acls import not_listed
from afl_stream.client.bulk_starts import StartRequest
from afl_stream.client.client import Client
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode
from afl_stream.wire.headers import IfExists

#: The longest line, as the longest source is.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
#: What a line may have.
FIELDS: Final = ("workflow", "id", "inputs")
#: Standard input up to this is kept in memory while it is gone through twice; more in a file.
_SPOOLED_BYTES: Final = 8 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024


def start_many(
    invocation: Invocation, source: str, workflow: str | None, if_exists: IfExists | None = None
) -> ExitCode:
    """Start the workflows of a file of JSON lines, or of standard input for "-"; `workflow` is for lines without one.

    All lines are checked before the first start is sent. Prints the ids in the order of the lines.
    """
    config, terminal = invocation.settings(), invocation.terminal()
    count, ids = 0, list[str]()
    with (
        _opened(source) as (file, name),
        open_transport(config) as transport,
        Client(config, transport) as client,
    ):
        topic = client.topology.definitions()
        if topic not in transport.admin().topic_names():
            raise not_listed(transport.admin(), topic, "programs", "--role starter")
        starts_file = StartsFile(file, name, workflow)
        for lot in client.start_in_lots(starts_file, check=_InputCheck(), if_exists=if_exists):
            count += len(lot)
            if terminal.as_json:
                ids.extend(lot)
            else:
                for workflow_id in lot:
                    terminal.line(workflow_id)
    if terminal.as_json:
        terminal.document({"workflow_ids": ids, "count": count})
    else:
        starts, it = ("1 start is", "it") if count == 1 else (f"{count:,} starts are", "them")
        words = ("evaluator",) if invocation.is_shared() else ("evaluator", "--until-idle")
        terminal.remark(f"{starts} asked for; an evaluator applies {it}: {invocation.command_line(*words)}")
    return ExitCode.OK


class StartsFile:
    """The starts of a file, from its beginning each time: what is kept of it is one line."""

    def __init__(self, file: IO[bytes], name: str, workflow: str | None) -> None:
        self._file, self._name, self._workflow = file, name, workflow

    def __iter__(self) -> Iterator[StartRequest]:
        """Yield the start of each line that is not blank. Raises CommandRefused, which names file and line."""
        self._file.seek(0)
        number = 0
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            number += 1
            place = f"{self._name}:{number}"
            if len(line) > MAX_LINE_BYTES:
                raise CommandRefused(f"{place}: the line has more than {MAX_LINE_BYTES} bytes")
            if line.strip():
                yield self._request(line, place)

    def _request(self, line: bytes, place: str) -> StartRequest:
        found = _object(line, place)
        for name in found:
            if name not in FIELDS:
                raise CommandRefused(f"{place}: unknown field {printable(name)}; a line may have {', '.join(FIELDS)}")
        workflow = found.get("workflow", self._workflow)
        if workflow is None:
            raise CommandRefused(f'{place}: no "workflow", and none is given on the command line')
        if not isinstance(workflow, str):
            raise CommandRefused(f'{place}: "workflow" is not a text')
        workflow_id, inputs = found.get("id"), found.get("inputs", {})
        if workflow_id is not None and not isinstance(workflow_id, str):
            raise CommandRefused(f'{place}: "id" is not a text')
        if not isinstance(inputs, dict):
            raise CommandRefused(f'{place}: "inputs" is not a JSON object')
        try:
            plain = plain_values(inputs, INPUTS)
        except ValueRefused as error:
            raise CommandRefused(f"{place}: {error}") from None
        return StartRequest(workflow=workflow, inputs=plain, workflow_id=workflow_id, place=place)


class _InputCheck:
    """The check of a start's inputs against the workflow's parameters. A workflow is planned once."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, str], WorkflowPlan] = {}

    def __call__(self, program: CompiledProgram, workflow: str, inputs: Mapping[str, object]) -> None:
        key = (program.fingerprint, workflow)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = plan_workflow(program, workflow)
        check_inputs(plan.facet, plan.schemas, dict(plain_values(inputs, INPUTS)))


def _object(line: bytes, place: str) -> dict[str, object]:
    try:
        found = read_json(line.decode("utf-8").rstrip())
    except RecursionError:
        raise CommandRefused(f"{place}: nested too deep") from None
    except (DuplicateKey, NotJson) as error:
        raise CommandRefused(f"{place}: {error}") from None
    except json.JSONDecodeError as error:
        raise CommandRefused(f"{place}: not JSON: {error.msg} (column {error.colno})") from None
    except ValueError as error:
        raise CommandRefused(f"{place}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CommandRefused(
            f'{place}: expected a JSON object such as {{"workflow": "Checkout", "id": "order-17", "inputs": {{}}}}'
        )
    return found


@contextmanager
def _opened(source: str) -> Iterator[tuple[IO[bytes], str]]:
    """Open the file, or keep standard input so that it can be gone through twice; with its name in errors."""
    if source == "-":
        yield from _kept(sys.stdin.buffer, "standard input")
        return
    with _file(source) as file:
        if file.seekable():
            yield file, source
        else:
            yield from _kept(file, source)


def _file(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise CommandRefused(f"--many {path}: {error.strerror}") from error


def _kept(stream: IO[bytes], name: str) -> Iterator[tuple[IO[bytes], str]]:
    with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as kept:
        while piece := stream.read(_PIECE_BYTES):
            kept.write(piece)
        yield kept, name
