"""ClaudeAgentRunner: run a workflow to its end in this process, with handlers and Claude answering its events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from afl.claude.client import default_model
from afl.claude.conversation import (
    DEFAULT_SYSTEM_PROMPT,
    MAX_RETRIES,
    MAX_TOKENS,
    MAX_TURNS,
    Brief,
)
from afl.claude.errors import ClaudeFailed
from afl.claude.prompt_text import fill_prompt
from afl.claude.replies import ClaudeUsage
from afl.claude.tool_definitions import ToolDefinition, tool_definitions
from afl.claude.turns import ClaudeClient, ClaudeTurns, payload_text
from afl.compiled.program import CompiledProgram, Node
from afl.core.handlers.returned import answers_later, plain_result, plain_update
from afl.core.probes import Probe, no_probe
from afl.core.process.crashes import Crash
from afl.core.text.exception_text import exception_class, exception_text, exception_traceback
from afl.engine.errors import StoreUnavailable
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.stores.public.persistence import EventDefinition, PersistenceAPI
from afl.telemetry.telemetry import TelemetryEvent
from afl.workers.call_threads import CallsHere, LoopRunsHere
from afl.workers.task_context import TaskContext
from afl.workers.tool_registry import ToolRegistry

_log = logging.getLogger(__name__)

#: The type of the telemetry event about the cost of one of Claude's answers.
ANSWER_EVENT: Final = "claude.answer"


class ClaudeAgentRunner:
    """A runner that drives workflows synchronously: no polling, no registration, no threads.

    An event whose facet has a handler in `tool_registry` (by its qualified name, its short name, or the default one) is
    answered by that handler. Claude answers any other event: it gets the facet's prompt block, or else the workflow's
    name, the task and the payload, and has one tool for each event facet of the program. A handler that raises, and a
    Claude that cannot or will not answer, fail their step, as an agent's StepFailed would: a catch may handle that.

    `usage` counts all runs. An instance runs one workflow at a time.
    """

    def __init__(  # noqa: PLR0913 - a public signature, settings by name
        self,
        evaluator: Evaluator,
        persistence: PersistenceAPI,
        *,
        anthropic_client: ClaudeClient | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        tool_registry: ToolRegistry | None = None,
        max_dispatches: int = 100,
        max_turns: int = MAX_TURNS,
        max_retries: int = MAX_RETRIES,
        max_tokens: int = MAX_TOKENS,
        cache_tools: bool = False,
        probe: Probe = no_probe,
    ) -> None:
        """Take `claude_client()`, or any object with a similar `messages.create`; None: handlers only.

        `max_dispatches` limits the events that one `run` answers, `max_turns` the replies that Claude may need for one
        event, `max_retries` how often it is reminded after ending without an answer. The client retries failed
        requests.
        """
        self._evaluator = evaluator
        self._persistence = persistence
        self._registry = tool_registry or ToolRegistry()
        self._turns = None if anthropic_client is None else ClaudeTurns(anthropic_client, self._registry)
        self._model = model or default_model()
        self._system_prompt = system_prompt or DEFAULT_SYSTEM_PROMPT
        self._max_dispatches = max_dispatches
        self._max_turns = max_turns
        self._max_retries = max_retries
        self._max_tokens = max_tokens
        self._cache_tools = cache_tools
        self._probe = probe

    @property
    def usage(self) -> ClaudeUsage:
        """Requests and tokens of all runs so far."""
        return ClaudeUsage() if self._turns is None else self._turns.usage

    def run(
        self,
        workflow_ast: Node | str,
        inputs: Mapping[str, Value] | None = None,
        program_ast: Node | CompiledProgram | None = None,
        *,
        task_description: str | None = None,
    ) -> ExecutionResult:
        """Start a workflow and answer its events until it ends.

        Returns PAUSED when `max_dispatches` is used up, or when the workflow waits for something else. Raises
        RuntimeError for an event without a handler when there is no client either.
        """
        result = self._evaluator.execute(workflow_ast, inputs, program_ast)
        return self._finish(result, task_description)

    def resume(self, workflow_id: str, *, task_description: str | None = None) -> ExecutionResult:
        """Load a workflow from the store, such as one whose process died, and continue as `run` does."""
        return self._finish(self._evaluator.resume(workflow_id), task_description)

    def _finish(self, result: ExecutionResult, task_description: str | None) -> ExecutionResult:
        """Answer open events and resume, until the workflow no longer waits.

        For each event, in this order:
          1. get its answer,
          2. store the answer in a commit of its own,
          3. resume the workflow, once all open events have their answers.

        A crash before 2 asks again when `resume` loads the workflow; after 2 the answer is kept.
        """
        left = self._max_dispatches
        deferred: set[str] = set()
        calls = CallsHere()
        try:
            run = _Run(self._evaluator, result.workflow_id, task_description)
            while result.status == ExecutionStatus.PAUSED and left:
                events = [event for event in result.pending_events if event.id not in deferred][:left]
                if not events:
                    break
                before = left
                for event in events:
                    # Another process may have answered, or ended the workflow: the resume below finds out.
                    if self._waits_for(event):
                        left -= 1
                        if not self._answer(event, run, calls):
                            deferred.add(event.id)
                result = self._evaluator.resume(result.workflow_id)
                if left == before and {event.id for event in events} <= {event.id for event in result.pending_events}:
                    raise RuntimeError(
                        f"{events[0].event_type} of step {events[0].step_id} waits in the evaluator's store, but not "
                        "in the one that this runner was given; give both the same"
                    )
        finally:
            calls.close()
        return result

    def _waits_for(self, event: EventDefinition) -> bool:
        """Say whether the step still waits: no other process has answered meanwhile, or ended the workflow."""
        step = self._persistence.get_step(event.step_id)
        root = self._persistence.get_workflow_root(event.workflow_id)
        return (
            step is not None and step.state == StepState.EVENT_TRANSMIT and not (root is not None and root.is_terminal)
        )

    def _answer(self, event: EventDefinition, run: _Run, calls: CallsHere) -> bool:
        """Answer an event; return False when its answer comes later, from elsewhere."""
        facet = event.event_type
        if not self._registry.has_handler(facet) and self._turns is None:
            raise RuntimeError(f"No handler registered for event facet '{facet}', and no Claude client to ask")
        try:
            value = self._handled(event, calls) if self._registry.has_handler(facet) else self._asked(event, run)
        except LoopRunsHere:
            raise
        except BaseException as error:
            if issubclass(type(error), (KeyboardInterrupt, Crash)):
                raise
            if issubclass(type(error), ClaudeFailed):
                _log.warning("%s of step %s: %s", facet, event.step_id, error)
            else:
                _log.error("%s of step %s failed\n%s", facet, event.step_id, exception_traceback(error))
            self._fail(event, exception_class(error), exception_text(error))
            return True
        if answers_later(value):
            return False
        self._probe("claude.answered")
        try:
            result = plain_result(value)
            # A model without an answer gives an empty result; a handler that gives one may lack returns.
            is_checked = bool(result) or self._registry.has_handler(facet)
            self._evaluator.continue_step(event.step_id, result, event_id=event.id, is_checked=is_checked)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a result that does not fit fails its step
            self._fail(event, exception_class(error), exception_text(error))
        self._probe("claude.stored")
        return True

    def _fail(self, event: EventDefinition, error_type: str, message: str) -> None:
        self._evaluator.fail_step(event.step_id, message, error_type, event_id=event.id)

    def _handled(self, event: EventDefinition, calls: CallsHere) -> Any:
        """Return the result of the facet's handler; a coroutine is run to completion."""
        facet, payload = event.event_type, dict(event.payload)
        handler = self._registry.find(facet) or (lambda taken: self._registry.handle(facet, taken))
        over = False
        try:
            return calls.call(handler, payload, self._context(event, lambda: over), None)
        finally:
            over = True

    def _asked(self, event: EventDefinition, run: _Run) -> dict[str, Any]:
        """Return Claude's answer."""
        assert self._turns is not None
        tool = next((tool for tool in run.tools if tool.facet_name == event.event_type), None)
        payload = dict(event.payload)
        prompt = (tool.prompt_block if tool is not None else None) or {}
        template, system = prompt.get("template"), prompt.get("system")
        brief = Brief(
            facet=event.event_type,
            model=str(prompt.get("model") or self._model),
            system=self._system_prompt if system is None else fill_prompt(str(system), payload),
            text=run.question(event) if template is None else fill_prompt(str(template), payload),
            tools=run.tools,
            answer=tool,
            helpers=frozenset(tool.name for tool in run.tools if self._registry.has_handler(tool.facet_name)),
            max_tokens=self._max_tokens,
            max_turns=self._max_turns,
            max_retries=self._max_retries,
            cache_tools=self._cache_tools,
        )
        before = replace(self._turns.usage)
        try:
            return self._turns.answer(brief, self._context(event, lambda: False))
        finally:
            self._report_usage(event, brief, before)

    def _report_usage(self, event: EventDefinition, brief: Brief, before: ClaudeUsage) -> None:
        """Emit a telemetry event about the cost of an answer."""
        telemetry, used = self._evaluator.telemetry, self.usage
        if telemetry.wants(ANSWER_EVENT):
            telemetry.emit(
                TelemetryEvent(
                    timestamp=telemetry.clock.now_ms(),
                    event_type=ANSWER_EVENT,
                    workflow_id=event.workflow_id,
                    step_id=event.step_id,
                    details={
                        "facetName": event.event_type,
                        "model": brief.model,
                        "requests": used.requests - before.requests,
                        "inputTokens": used.input_tokens - before.input_tokens,
                        "outputTokens": used.output_tokens - before.output_tokens,
                    },
                )
            )

    def _context(self, event: EventDefinition, is_over: Any) -> TaskContext:
        """Return the context of a handler for its event, the same as under any poller."""
        task = TaskDefinition(
            uuid=event.id,
            name=event.event_type,
            runner_id="",
            workflow_id=event.workflow_id,
            flow_id="",
            step_id=event.step_id,
            state=TaskState.RUNNING,
            data=dict(event.payload),
        )
        return TaskContext(
            task,
            lambda partial: self._evaluator.update_step(event.step_id, plain_update(partial), event_id=event.id),
            lambda: not self._waits_for(event),
            is_over,
            is_cancelled=lambda: not self._waits_for(event),
        )


class _Run:
    """The common part of one workflow's conversations; its program is read before the first request."""

    def __init__(self, evaluator: Evaluator, workflow_id: str, task_description: str | None) -> None:
        self._evaluator = evaluator
        self._workflow_id = workflow_id
        self._task_description = task_description
        self._tools: list[ToolDefinition] | None = None
        self._name = ""

    @property
    def tools(self) -> list[ToolDefinition]:
        """One tool for each event facet of the program."""
        if self._tools is None:
            context = self._evaluator.context(self._workflow_id)
            self._name = str((context.workflow_ast or {}).get("name", ""))
            self._tools = tool_definitions(context.program_ast)
        return self._tools

    def question(self, event: EventDefinition) -> str:
        """Return the question for Claude where the facet has no prompt block."""
        _ = self.tools
        parts = [f"Workflow: {self._name}"]
        if self._task_description:
            parts.append(f"Task: {self._task_description}")
        parts.append(f"Event facet: {event.event_type}\nPayload:\n{payload_text(event.payload)}")
        return "\n\n".join(parts)
