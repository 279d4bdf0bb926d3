"""Entities: their fields, their defaults, and that they become dictionaries."""

from __future__ import annotations

import dataclasses

import pytest

from afl.runtime import entities
from tests.unit.surface.shapes import SOME, assert_fields, constants, written

CONSTANTS: dict[str, dict[str, object]] = {
    "RunnerState": {
        "CREATED": "created",
        "RUNNING": "running",
        "COMPLETED": "completed",
        "FAILED": "failed",
        "PAUSED": "paused",
        "CANCELLED": "cancelled",
        "UNKNOWN": "unknown",
    },
    "TaskState": {
        "PENDING": "pending",
        "RUNNING": "running",
        "COMPLETED": "completed",
        "FAILED": "failed",
        "IGNORED": "ignored",
        "CANCELED": "canceled",
    },
    "ServerState": {"STARTUP": "startup", "RUNNING": "running", "SHUTDOWN": "shutdown", "ERROR": "error"},
    "NoteType": {"ERROR": "error", "INFO": "info", "WARNING": "warning"},
    "NoteOriginator": {"WORKFLOW": "workflow", "AGENT": "agent"},
    "NoteImportance": {"HIGH": 1, "NORMAL": 5, "LOW": 10},
}
FIELDS = {
    "Parameter": "name, value, type_hint='Any'",
    "UserDefinition": "email, name='', avatar=''",
    "Ownership": "owner=None, group=''",
    "Classifier": "category='', tags=[]",
    "SourceText": "name, content, language='afl'",
    "InlineSource": "content, language='afl'",
    "FileArtifact": "path, checksum=''",
    "JarArtifact": "group_id, artifact_id, version",
    "ResourceSource": "name, path",
    "TextSource": "name, content",
    "ScriptCode": "name, code, language='python'",
    "WorkflowMetaData": "description='', author='', tags=[]",
    "NamespaceDefinition": "uuid, name, path=''",
    "FacetDefinition": "uuid, name, namespace_id, parameters=[], return_type=None",
    "MixinDefinition": "uuid, name, namespace_id, parameters=[]",
    "BlockDefinition": "uuid, name, block_type, statements=[]",
    "StatementDefinition": "uuid, name, statement_type, block_id=None, expression=None",
    "StatementArguments": "statement_id, arguments=[]",
    "StatementReferences": "statement_id, references=[]",
    "FlowIdentity": "name, path, uuid",
    "FlowDefinition": "uuid, name, namespaces=[], facets=[], workflows=[], mixins=[], blocks=[], statements=[], "
    "arguments=[], references=[], script_code=[], file_artifacts=[], jar_artifacts=[], resources=[], text_sources=[], "
    "inline=None, classification=None, publisher=None, ownership=None, compiled_sources=[]",
    "WorkflowDefinition": "uuid, name, namespace_id, facet_id, flow_id, starting_step, version, metadata=None, "
    "documentation=None, date=0",
    "RunnerDefinition": "uuid, workflow_id, workflow, parameters=[], step_id=None, user=None, start_time=0, "
    "end_time=0, duration=0, retain=0, state='created'",
    "TaskDefinition": "uuid, name, runner_id, workflow_id, flow_id, step_id, state='pending', created=0, updated=0, "
    "error=None, task_list_name='default', data_type='', data=None",
    "LogDefinition": "uuid, order, runner_id, step_id=None, object_id='', object_type='', note_originator='workflow', "
    "note_type='info', note_importance=5, message='', state='', line=0, file='', details={}, time=0",
    "HandledCount": "handler, handled=0, not_handled=0",
    "ServerDefinition": "uuid, server_group, service_name, server_name, server_ips=[], start_time=0, ping_time=0, "
    "topics=[], handlers=[], handled=[], state='startup', manager='', error=None",
    "HandlerRegistration": "facet_name, module_uri, entrypoint='handle', version='1.0.0', checksum='', "
    "timeout_ms=30000, requirements=[], metadata={}, created=0, updated=0",
    "PublishedSource": "uuid, namespace_name, source_text, namespaces_defined=[], version='latest', published_at=0, "
    "origin='', checksum=''",
    "LockMetaData": "topic=None, handler=None, step_name=None, step_id=None",
    "LockDefinition": "key, acquired_at=0, expires_at=0, meta=None",
}


@pytest.mark.parametrize(("name", "values"), CONSTANTS.items())
def test_constants_have_their_values(name: str, values: dict[str, object]) -> None:
    assert constants(getattr(entities, name)) == values


@pytest.mark.parametrize(("name", "fields"), FIELDS.items())
def test_an_entity_has_its_fields_and_becomes_a_dictionary(name: str, fields: str) -> None:
    cls = getattr(entities, name)
    assert_fields(cls, fields)
    needed = {p.name: p.name for p in written(fields) if p.default is p.empty and p.default is not SOME}

    assert dataclasses.asdict(cls(**needed)).items() >= needed.items()


def test_entities_inside_entities_become_dictionaries_too() -> None:
    flow = entities.FlowDefinition("u", entities.FlowIdentity("n", "p", "i"))
    flow.compiled_sources.append(entities.SourceText("a", "text"))
    lock = entities.LockDefinition("k", meta=entities.LockMetaData(topic="t"))

    assert dataclasses.asdict(flow)["name"] == {"name": "n", "path": "p", "uuid": "i"}
    assert dataclasses.asdict(flow)["compiled_sources"] == [{"name": "a", "content": "text", "language": "afl"}]
    assert dataclasses.asdict(lock)["meta"] == {"topic": "t", "handler": None, "step_name": None, "step_id": None}


def test_two_entities_share_no_list() -> None:
    first, second = (entities.ServerDefinition("u", "g", "s", "n") for _ in range(2))
    first.topics.append("t")

    assert second.topics == []
