"""Access to stored entities, one protocol a kind: for programs that bring a store of their own."""

from afl.stores.public.dao import (
    DataServices,
    EventDefinitionDAO,
    FlowDefinitionDAO,
    KeyLockDAO,
    LogDefinitionDAO,
    RunnerDefinitionDAO,
    ServerDefinitionDAO,
    StepDefinitionDAO,
    TaskDefinitionDAO,
    WorkflowDefinitionDAO,
)

__all__ = [
    "DataServices",
    "EventDefinitionDAO",
    "FlowDefinitionDAO",
    "KeyLockDAO",
    "LogDefinitionDAO",
    "RunnerDefinitionDAO",
    "ServerDefinitionDAO",
    "StepDefinitionDAO",
    "TaskDefinitionDAO",
    "WorkflowDefinitionDAO",
]
