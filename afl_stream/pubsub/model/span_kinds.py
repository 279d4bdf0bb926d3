"""The kinds of spans of OpenInference: what a traced piece of work is."""

from __future__ import annotations

from enum import StrEnum


class OpenInferenceSpanKindValues(StrEnum):
    """The values of the attribute `openinference.span.kind`, as openinference-semantic-conventions 0.1 lists them."""

    TOOL = "TOOL"
    CHAIN = "CHAIN"
    LLM = "LLM"
    RETRIEVER = "RETRIEVER"
    EMBEDDING = "EMBEDDING"
    AGENT = "AGENT"
    RERANKER = "RERANKER"
    UNKNOWN = "UNKNOWN"
    GUARDRAIL = "GUARDRAIL"
    EVALUATOR = "EVALUATOR"
    PROMPT = "PROMPT"
    DECISION = "DECISION"


def span_kind_of(command: object) -> OpenInferenceSpanKindValues:
    """Return the kind that a command says of itself by `oi_span_type`; UNKNOWN where it says nothing."""
    kind = getattr(command, "oi_span_type", None)
    return kind if isinstance(kind, OpenInferenceSpanKindValues) else OpenInferenceSpanKindValues.UNKNOWN
