"""What to do next with a request: the commands that go on with it, answer it, or show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from afl_stream.commands.invocation import Invocation
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.pubsub.model.topics import InWorkflowOutputTopic

if TYPE_CHECKING:
    from afl_stream.pubsub.event_stores.store import StoredRequest


def questioned_topics(definition: WorkflowDefinition, stored: StoredRequest) -> list[str]:
    """Return the topics on which questions of a request wait for an answer, by the rule of running/inputs.py."""
    from afl_stream.pubsub.model.events import ConsumeFromTopicEvent

    published = [event.name for event in stored.events if not isinstance(event, ConsumeFromTopicEvent)]
    asked: dict[str, int] = {}
    for topic in definition.topics.values():
        if isinstance(topic, InWorkflowOutputTopic):
            asked[topic.reply_to] = asked.get(topic.reply_to, 0) + published.count(topic.name)
    return [topic for topic, count in asked.items() if count > published.count(topic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSteps:
    """The commands that a person may want next; `workflow` is as it was given to this one."""

    invocation: Invocation
    workflow: str
    request_id: str
    is_remote: bool

    def going_on(self) -> str:
        """Return the command that goes on with the request, or tries it again."""
        return self._invoke()

    def answering(self, topics: Sequence[str]) -> list[str]:
        """Return the commands that answer the questions of the request, for the topics that take answers."""
        named = topics if len(topics) > 1 or self.is_remote else []
        return [self._invoke("INPUT", "--topic", topic) for topic in named] or [self._invoke("INPUT")]

    def showing(self) -> str:
        """Return the command that shows the events of the request."""
        return self.invocation.command_line("pubsub", "show", self.workflow, self.request_id)

    def after_failure(self) -> list[str]:
        """Return lines for a request whose node failed."""
        return [
            f"its events are stored: {self.showing()}",
            f"try it again, where finished nodes do not run again: {self.going_on()}",
        ]

    def after_interruption(self) -> list[str]:
        """Return lines for a request that this command left while it was at work."""
        if self.is_remote:
            worker = self.invocation.command_line("pubsub", "run", self.workflow)
            return [f"workers go on with it, as soon as one runs: {worker}", f"follow it: {self.going_on()}"]
        return [f"go on with it: {self.going_on()}"]

    def while_waiting(self, topics: Sequence[str]) -> list[str]:
        """Return lines for a request that waits: for answers on these topics, or for other events."""
        if not topics:
            return [
                f"request {self.request_id} waits for events that none of its nodes makes now; what there is: "
                f"{self.showing()}"
            ]
        first, *others = self.answering(topics)
        return [f"request {self.request_id} waits; answer it with: {first}", *(f"or with: {other}" for other in others)]

    def after_wait(self) -> str:
        """Return a line for a request that waited when its output was shown, and has gone on by now."""
        return f"request {self.request_id} waited, and has gone on by now; see what came of it: {self.going_on()}"

    def _invoke(self, *words: str) -> str:
        remote = ["--remote"] if self.is_remote else []
        words = ("pubsub", "invoke", self.workflow, *words[:1], "--request", self.request_id, *words[1:], *remote)
        return self.invocation.command_line(*words)
