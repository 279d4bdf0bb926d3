"""The settings of a deployment, read from `afl-stream.toml` and the environment."""

from afl_stream.settings.config import (
    MASK,
    AgentSettings,
    AnswerSettings,
    DispatchSettings,
    EmbeddedSettings,
    EvaluatorSettings,
    KafkaSettings,
    RegistrySettings,
    ScriptSettings,
    StoreSettings,
    StreamConfig,
    TelemetrySettings,
    TopicSettings,
    load_config,
)

__all__ = [
    "AgentSettings",
    "AnswerSettings",
    "DispatchSettings",
    "EmbeddedSettings",
    "EvaluatorSettings",
    "KafkaSettings",
    "MASK",
    "RegistrySettings",
    "ScriptSettings",
    "StoreSettings",
    "StreamConfig",
    "TelemetrySettings",
    "TopicSettings",
    "load_config",
]
