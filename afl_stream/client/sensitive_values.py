"""Sensitive values in what a client sends: named in headers, and encrypted where the settings say so."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from afl.compiled.program import CompiledProgram
from afl.compiled.sensitive import SensitiveMarks, sensitive_marks
from afl.core.errors import AFLError
from afl_stream.errors import SchemaUnavailable
from afl_stream.programs.definitions import Definitions
from afl_stream.sensitive.marks import mark_headers
from afl_stream.sensitive.schedule_refusals import SensitiveSchedule
from afl_stream.settings.sensitive import SensitiveSettings
from afl_stream.transport import Headers, TransportError
from afl_stream.wire.messages import ContinueAsNew, ExternalEvent, Message, StartWorkflow, StepContinue, workflow_of
from afl_stream.wire.schedule_commands import PutSchedule

if TYPE_CHECKING:
    from afl_stream.sensitive.sealing import Sealer

#: The library facet that returns the data of an external event.
_WAIT: Final = "afl.WaitForEvent"
_KEPT: Final = 100


class SensitiveValues:
    """What a client knows of sensitive values when it sends something."""

    def __init__(self, definitions: Definitions, sealer: Sealer | None, settings: SensitiveSettings) -> None:
        self._definitions = definitions
        self._sealer = sealer if sealer is not None and sealer.seals else None
        self._patterns = settings.patterns
        self._marks: OrderedDict[str, SensitiveMarks] = OrderedDict()

    def marked(self, message: Message) -> tuple[Message, Headers]:
        """Return a record as it is sent, and the headers that name its sensitive values.

        What the client cannot judge, because it does not know the workflow's program, is encrypted whole. Raises
        KeyUnavailable and SensitiveSchedule.
        """
        if isinstance(message, StartWorkflow):
            return self.start(message)
        if isinstance(message, ContinueAsNew) and message.inputs:
            inputs, headers = self._unknown(message.inputs, message.workflow_id, "", "input")
            return (replace(message, inputs=inputs), headers) if headers else (message, ())
        if isinstance(message, StepContinue) and message.result:
            of_run = workflow_of(message.step_id)
            result, headers = self._unknown(message.result, of_run, message.step_id, "return")
            return (replace(message, result=result), headers) if headers else (message, ())
        if isinstance(message, ExternalEvent) and self._sealer is not None and message.value is not None:
            if self._patterns.takes(_WAIT, "data") or self._patterns.takes(message.name, "data"):
                from afl_stream.sensitive.opening import event_place

                return replace(message, value=self._sealer.seal(message.value, event_place(message))), ()
        elif isinstance(message, PutSchedule) and self._sealer is not None and message.inputs:
            names = self._names(message.workflow, message.program).intersection(message.inputs)
            if names:
                raise SensitiveSchedule(message.schedule_id, names)
        return message, ()

    def start(self, command: StartWorkflow, program: CompiledProgram | None = None) -> tuple[StartWorkflow, Headers]:
        """Return a start as it is sent, and its headers."""
        if not command.inputs:
            return command, ()
        names = self._names(command.workflow, command.program, program).intersection(command.inputs)
        inputs: Mapping[str, Any] = command.inputs
        if self._sealer is not None:
            inputs = self._sealer.seal_values(inputs, names, command.workflow_id, "", "input")
        return (command if inputs is command.inputs else replace(command, inputs=inputs)), mark_headers(names)

    def _unknown(
        self, values: Mapping[str, Any], workflow_id: str, step_id: str, kind: str
    ) -> tuple[Mapping[str, Any], Headers]:
        if self._sealer is not None:
            sealed = self._sealer.seal_values(values, values.keys(), workflow_id, step_id, kind)
            return sealed, mark_headers(values.keys())
        return values, mark_headers([name for name in values if self._patterns.takes(None, name)])

    def _names(self, workflow: str, fingerprint: str | None, program: CompiledProgram | None = None) -> frozenset[str]:
        """Return the sensitive inputs of a workflow, by its program as far as that is known."""
        marks = self._marks.get(fingerprint or "")
        if marks is None:
            try:
                found = program or self._definitions.find(workflow, fingerprint)[0]
            except (SchemaUnavailable, TransportError):
                raise
            except AFLError:
                return frozenset()  # The evaluator refuses it.
            marks = sensitive_marks(found, self._patterns)
            if fingerprint is not None:
                self._marks[fingerprint] = marks
                while len(self._marks) > _KEPT:
                    self._marks.popitem(last=False)
        return frozenset(marks.params_of(workflow))
