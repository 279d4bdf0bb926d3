"""Nodes that ask a language model, and nodes that run the functions that it calls.

The names of this package load when they are first used.
"""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.pubsub.llm.anthropic_model import AnthropicModel as AnthropicModel
    from afl_stream.pubsub.llm.conversations import Conversation as Conversation
    from afl_stream.pubsub.llm.conversations import calls_functions as calls_functions
    from afl_stream.pubsub.llm.conversations import is_answer as is_answer
    from afl_stream.pubsub.llm.errors import ContextFull as ContextFull
    from afl_stream.pubsub.llm.errors import ConversationInvalid as ConversationInvalid
    from afl_stream.pubsub.llm.errors import FunctionUnusable as FunctionUnusable
    from afl_stream.pubsub.llm.errors import ModelFailed as ModelFailed
    from afl_stream.pubsub.llm.errors import ModelRefused as ModelRefused
    from afl_stream.pubsub.llm.errors import ModelUnavailable as ModelUnavailable
    from afl_stream.pubsub.llm.errors import ReplyCutOff as ReplyCutOff
    from afl_stream.pubsub.llm.errors import TooManyReplies as TooManyReplies
    from afl_stream.pubsub.llm.function_command import FunctionCallTool as FunctionCallTool
    from afl_stream.pubsub.llm.functions import FunctionTool as FunctionTool
    from afl_stream.pubsub.llm.language_model import FunctionSpec as FunctionSpec
    from afl_stream.pubsub.llm.language_model import LanguageModel as LanguageModel
    from afl_stream.pubsub.llm.language_model import ModelReply as ModelReply
    from afl_stream.pubsub.llm.llm_command import LLMCommand as LLMCommand
    from afl_stream.pubsub.llm.messages import Message as Message
    from afl_stream.pubsub.llm.messages import Role as Role
    from afl_stream.pubsub.llm.messages import StopReason as StopReason
    from afl_stream.pubsub.llm.messages import ToolCall as ToolCall
    from afl_stream.pubsub.llm.messages import ToolResult as ToolResult
    from afl_stream.pubsub.llm.messages import Usage as Usage
    from afl_stream.pubsub.llm.react import create_react_workflow as create_react_workflow

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ()

_HOMES = {
    "afl_stream.pubsub.llm.anthropic_model": "AnthropicModel",
    "afl_stream.pubsub.llm.conversations": "Conversation calls_functions is_answer",
    "afl_stream.pubsub.llm.errors": (
        "ContextFull ConversationInvalid FunctionUnusable ModelFailed ModelRefused ModelUnavailable ReplyCutOff "
        "TooManyReplies"
    ),
    "afl_stream.pubsub.llm.function_command": "FunctionCallTool",
    "afl_stream.pubsub.llm.functions": "FunctionTool",
    "afl_stream.pubsub.llm.language_model": "FunctionSpec LanguageModel ModelReply",
    "afl_stream.pubsub.llm.llm_command": "LLMCommand",
    "afl_stream.pubsub.llm.messages": "Message Role StopReason ToolCall ToolResult Usage",
    "afl_stream.pubsub.llm.react": "create_react_workflow",
}

__all__ = [
    "AnthropicModel",
    "ContextFull",
    "Conversation",
    "ConversationInvalid",
    "FunctionCallTool",
    "FunctionSpec",
    "FunctionTool",
    "FunctionUnusable",
    "LLMCommand",
    "LanguageModel",
    "Message",
    "ModelFailed",
    "ModelRefused",
    "ModelReply",
    "ModelUnavailable",
    "ReplyCutOff",
    "Role",
    "StopReason",
    "TooManyReplies",
    "ToolCall",
    "ToolResult",
    "Usage",
    "calls_functions",
    "create_react_workflow",
    "is_answer",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
