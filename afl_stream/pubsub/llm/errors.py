"""The errors of nodes that ask a language model, and of the functions that it calls."""

from __future__ import annotations

from afl_stream.pubsub.errors import PubSubError


class ModelFailed(PubSubError):
    """A language model gave no usable reply; the text says which model, and why."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model}: {reason}")
        self.model = model
        self.reason = reason


class ModelUnavailable(ModelFailed):
    """The request failed: no network, a wrong key, an unknown model, a rate limit that outlasted all retries."""


class ModelRefused(ModelFailed):
    """The model refused the request."""


class ReplyCutOff(ModelFailed):
    """The reply is longer than it may be."""


class ContextFull(ModelFailed):
    """The conversation is longer than the model can hold."""


class TooManyReplies(ModelFailed):
    """The model called functions again and again and gave no answer."""


class FunctionUnusable(PubSubError):
    """A function cannot be offered to a model as it is written; the text says which, and what would be right."""

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"function {function}: {reason}")
        self.function = function
        self.reason = reason


class ConversationInvalid(PubSubError):
    """The data of an event is no conversation as LLM nodes write it, or lacks results that the model waits for."""


class FunctionsNotInstalled(PubSubError):
    """The libraries that read the types and docstrings of functions are missing."""

    def __init__(self, library: str) -> None:
        super().__init__(f"the package {library} is not installed; install afl-stream[llm]")
        self.library = library
