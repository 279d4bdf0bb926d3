"""Names of topics and workflows: what Kafka takes as the name of a topic."""

from __future__ import annotations

import re
from typing import Final

from afl.core.limits import MAX_TOPIC_NAME_CHARS
from afl.core.text.printable import printable
from afl_stream.pubsub.errors import PubSubError

#: Characters of names that Kafka takes. The name of a workflow is part of the names of its topics.
_LEGAL: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_TOPIC_NAME_CHARS}}}")

#: Topics of the runtime that stand beside those of a workflow: the store of its requests, and how these stand.
RESERVED_TOPIC_NAMES: Final = frozenset({"state", "status"})

LEGAL_WORKFLOW_NAME: Final = f"1 to {MAX_TOPIC_NAME_CHARS} letters, digits, '_' and '-'"
NODE_NAME: Final = f"a text of 1 to {MAX_TOPIC_NAME_CHARS} characters on one line"
LEGAL_NAME: Final = f"1 to {MAX_TOPIC_NAME_CHARS} letters, digits, '.', '_' and '-'"


class BadTopicName(PubSubError, ValueError):
    """A topic has a name that Kafka refuses."""

    def __init__(self, name: object) -> None:
        super().__init__(f"topic {printable(repr(name), 300)}: a topic's name has {LEGAL_NAME}, and is not '.' or '..'")
        self.name = name


def is_legal(name: object) -> bool:
    """Return whether Kafka takes this as the name of a topic."""
    return isinstance(name, str) and _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def is_legal_workflow(name: object) -> bool:
    """Return whether this is a name for a workflow. With dots, topic b.c of a and topic c of a.b would be one."""
    return is_legal(name) and "." not in str(name)


def is_node_name(name: object) -> bool:
    """Return whether this is a name for a node: any text on one line that can be shown and stored."""
    return isinstance(name, str) and bool(name.strip()) and name.isprintable() and len(name) <= MAX_TOPIC_NAME_CHARS


def check_topic_name(name: object) -> None:
    """Raise BadTopicName for a name that Kafka refuses."""
    if not is_legal(name):
        raise BadTopicName(name)


def folded(name: str) -> str:
    """Return the name under which Kafka keeps a topic's metrics: topics that share one cannot both exist."""
    return name.replace(".", "_")


def hosted_name(workflow: str, topic: str) -> str:
    """Return the name of a workflow's topic on Kafka, without the deployment's prefix."""
    return f"pubsub.{workflow}.{topic}"


def described(thing: object) -> str:
    """Return what a thing is, for an error: `a str`, `an int`, `the class Summary`."""
    if isinstance(thing, type):
        return f"the class {thing.__qualname__}"
    name = type(thing).__qualname__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
