"""The agent of the approval: it tells people, here by a line on its standard output."""

import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any, Protocol

TELL = "approval.Tell"


class Context(Protocol):
    """What a handler is told besides the payload."""

    @property
    def workflow_id(self) -> str: ...


class Registrar(Protocol):
    """Whatever takes handlers: a Kafka agent, the embedded one."""

    def register(self, facet_name: str, handler: object) -> object: ...


def message(payload: Mapping[str, Any], request: str) -> str:
    """Return what a person is told: the text, and how to answer."""
    answer = shlex.quote(json.dumps({"approved": True, "by": payload["person"]}))
    return f"To {payload['person']}: {payload['text']}\n    afl-stream raise {request} approval {answer}"


def tell(payload: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Tell a person something about the run that asks for it."""
    sys.stdout.write(message(payload, context.workflow_id) + "\n")
    sys.stdout.flush()
    return {"sent": True}


def register_handlers(agent: Registrar) -> None:
    """Say which facet this module answers."""
    agent.register(TELL, tell)
