"""A deployment as an AsyncAPI 3 document: its topics, what they carry, and who sends and receives it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from afl.core.release import VERSION
from afl.core.text.masking import shown_url
from afl_stream.commands.schemas.event_schemas import TopicSchema, own_schemas
from afl_stream.commands.schemas.facet_documents import FacetDocuments
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declarations import load_declarations
from afl_stream.topics.declared import FIXED_KINDS, TopicSpec, Topology
from afl_stream.wire.dead_letters import DlqHeader

#: The version of the specification, and of its bindings for Kafka.
ASYNCAPI: Final = "3.0.0"
_BINDING: Final = {"bindingVersion": "0.5.0"}
_AVRO: Final = "application/vnd.apache.avro;version=1.9.0"
#: Who takes part in a deployment: a name for operations and tags, and what it does.
ROLES: Final = {
    "evaluator": "Runs the workflows: it sends the events of their steps, and continues them when answers come.",
    "agent": "Does the work of facets: it receives their events, and answers each of them.",
    "client": "Starts and steers runs, raises events for them, and follows their milestones.",
    "audit": "Reads everything, and takes part in nothing.",
}
_ANSWERS: Final = ("StepContinue", "StepFailed", "StepUpdate")
_DEAD_LETTER: Final = "DeadLetter"
_LONG_HEADERS: Final = ("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "traceparent")


class AsyncApiDocument:
    """Builds the document of one deployment."""

    def __init__(self, config: StreamConfig, facets: Mapping[str, FacetDocuments]) -> None:
        """Take the facets' schemas. Those whose events are tasks in the store are on no topic, and are left out."""
        self._config = config
        self._topology = Topology(config)
        self._facets = {name: found for name, found in facets.items() if self._topology.carries(name)}
        self._declared = load_declarations(config.topics.declarations)
        self._channels: dict[str, Any] = {}
        self._messages: dict[str, Any] = {}
        self._schemas: dict[str, Any] = {}
        self._operations: dict[str, Any] = {}

    def document(self, roles: Iterable[str] = ROLES) -> dict[str, Any]:
        """Return the document, with the operations of these roles."""
        topology = self._topology
        kinds = {getattr(topology, kind)(): kind for kind in FIXED_KINDS}
        records: dict[str, list[TopicSchema]] = {}
        for schema in own_schemas(topology):
            records.setdefault(schema.topic, []).append(schema)
        for spec in topology.specs(self._facets):
            facets = [name for name in self._facets if topology.facet(name) == spec.name]
            if facets:
                self._add_channel(spec, "facet", {self._event(name): name for name in facets})
            elif topology.is_dead_letters(spec.name):
                self._add_channel(spec, "dlq", {self._dead_letter(): ""})
            elif spec.name in kinds:
                names = {self._record(schema): "" for schema in records.get(spec.name, ())}
                self._add_channel(spec, kinds[spec.name], names or {self._schema_text(): ""})
            elif spec.name == topology.presence():
                self._add_channel(spec, "presence", {self._presence(): ""})
        for role in roles:
            getattr(self, f"_add_{role}")()
        return {
            "asyncapi": ASYNCAPI,
            "id": f"urn:afl-stream:{self._config.prefix or 'deployment'}",
            "info": {
                "title": f"AFL Stream deployment {self._config.prefix or '(without a prefix)'}",
                "version": VERSION,
                "description": "The topics of a deployment of AFL Stream, their records, and who sends and reads them.",
                "tags": [{"name": role, "description": ROLES[role]} for role in roles],
            },
            "defaultContentType": "application/avro",
            **self._servers(),
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._schemas},
        }

    # --- servers and channels -------------------------------------------------------------------------------------

    def _servers(self) -> dict[str, Any]:
        """Return the brokers; nothing on the embedded log, which has no address."""
        if not self._config.is_kafka:
            return {}
        kafka = self._config.kafka
        settings = {
            name: text for part in (kafka.client, kafka.producer, kafka.consumer) for name, text in part.items()
        }
        protocol = "kafka-secure" if "SSL" in settings.get("security.protocol", "").upper() else "kafka"
        url = self._config.registry.url
        registry = (
            {"schemaRegistryUrl": shown_url(url.split(",")[0]), "schemaRegistryVendor": "confluent"} if url else {}
        )
        servers = {}
        for number, host in enumerate((kafka.bootstrap or "").split(","), 1):
            servers[f"broker-{number}"] = {
                "host": host.strip(),
                "protocol": protocol,
                "bindings": {"kafka": {**registry, **_BINDING}},
            }
        return {"servers": servers}

    def _add_channel(self, spec: TopicSpec, kind: str, messages: Mapping[str, str]) -> None:
        settings = spec.settings
        numbers = {name: int(settings[name]) for name in ("retention.ms", "max.message.bytes") if name in settings}
        declared = self._declared[kind]
        self._channels[spec.name] = {
            "address": spec.name,
            "title": f"{kind} topic" if kind != "facet" else f"Events of {', '.join(sorted(messages.values()))}",
            "description": f"Keyed by: {declared.key}. {declared.why.get('key', '')}".strip(),
            "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
            "bindings": {
                "kafka": {
                    "topic": spec.name,
                    "partitions": spec.partitions,
                    "replicas": spec.replication,
                    "topicConfiguration": {"cleanup.policy": settings["cleanup.policy"].split(","), **numbers},
                    **_BINDING,
                }
            },
        }

    # --- messages -------------------------------------------------------------------------------------------------

    def _event(self, facet: str) -> str:
        documents = self._facets[facet]
        for what, schema in documents.json_schema.items():
            self._add_json_schema(f"{facet}.{what}", schema)
        return self._add_message(
            facet,
            title=f"An event of {facet}",
            key="The id of the step that asks.",
            payload={"schemaFormat": _AVRO, "schema": _with_namespaces(documents.event)},
            more={
                "x-payload-json-schema": {"$ref": f"#/components/schemas/{facet}.payload"},
                "x-result-json-schema": {"$ref": f"#/components/schemas/{facet}.result"},
            },
        )

    def _record(self, schema: TopicSchema) -> str:
        # The text has docs, which the parsed schema has not.
        root = json.loads(schema.schema.text)
        key = self._declared[next(k for k in FIXED_KINDS if getattr(self._topology, k)() == schema.topic)].key
        return self._add_message(
            str(root["name"]).rpartition(".")[2],
            title=str(root.get("doc", root["name"])).rstrip("."),
            key=f"{key[:1].upper()}{key[1:]}.",
            payload={"schemaFormat": _AVRO, "schema": _with_namespaces(root)},
        )

    def _dead_letter(self) -> str:
        headers = {name.value: {"type": "string"} for name in DlqHeader}
        name = self._add_message(
            _DEAD_LETTER,
            title="A record that could not be read or handled: its own bytes, with the reason in headers",
            key="The key of the original.",
            payload={"description": "The original's bytes, in whatever form."},
            more={"contentType": "application/octet-stream"},
        )
        self._messages[name]["headers"] = {"type": "object", "properties": headers}
        return name

    def _schema_text(self) -> str:
        return self._add_message(
            "SchemaText",
            title="The text of a schema that records are written with",
            key="The SHA-256 of the text.",
            payload={"type": "object", "description": "An Avro schema, as JSON."},
            more={"contentType": "application/json"},
        )

    def _presence(self) -> str:
        return self._add_message(
            "Presence",
            title="A process that is there: evaluator, agent, audit, or a program in any language",
            key="The id of the process.",
            payload={"type": "object", "description": "schemas/README.md#presence; no value once it has ended."},
            more={"contentType": "application/json"},
        )

    def _add_message(
        self, name: str, *, title: str, key: str, payload: Mapping[str, Any], more: Mapping[str, Any] | None = None
    ) -> str:
        framing = (
            {"schemaIdLocation": "payload", "schemaIdPayloadEncoding": "confluent"} if self._config.registry.url else {}
        )
        self._messages[name] = {
            "name": name,
            "title": title,
            "contentType": "application/avro",
            "headers": self._headers(),
            "payload": payload,
            "bindings": {"kafka": {"key": {"type": "string", "description": key}, **framing, **_BINDING}},
            **(more or {}),
        }
        return name

    def _headers(self) -> dict[str, Any]:
        names = _LONG_HEADERS if self._config.wire.headers == "cloudevents" else ("afl", "traceparent")
        return {"type": "object", "properties": {name: {"type": "string"} for name in ("content-type", *names)}}

    def _add_json_schema(self, name: str, schema: Mapping[str, Any]) -> None:
        """Add a JSON Schema, and its definitions as schemas of the document: references are from its root."""
        for defined, definition in schema.get("$defs", {}).items():
            self._schemas[f"schema.{defined}"] = _moved(definition)
        self._schemas[name] = _moved({key: value for key, value in schema.items() if key not in ("$defs", "$schema")})

    # --- operations -----------------------------------------------------------------------------------------------

    def _add_operation(
        self, role: str, verb: str, topic: str, *, group: str | None = None, reply: Mapping[str, Any] | None = None
    ) -> None:
        """Add what a role does with a topic: `send` or `receive`."""
        bindings = {"groupId": {"type": "string", "enum": [group]}} if group is not None else {}
        self._operations[f"{role}.{verb}.{topic}"] = {
            "action": verb,
            "channel": {"$ref": f"#/channels/{topic}"},
            "summary": f"The {role} {verb}s records of {topic}.",
            "tags": [{"name": role}],
            "bindings": {"kafka": {**bindings, **_BINDING}},
            "messages": self._references(topic, self._channels[topic]["messages"]),
            **({} if reply is None else {"reply": reply}),
        }

    def _references(self, topic: str, names: Iterable[str]) -> list[dict[str, str]]:
        return [{"$ref": f"#/channels/{topic}/messages/{name}"} for name in names]

    def _event_topics(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for facet in self._facets:
            found.setdefault(self._topology.facet(facet), []).append(facet)
        return found

    def _reply(self) -> dict[str, Any]:
        control = self._topology.control()
        return {"channel": {"$ref": f"#/channels/{control}"}, "messages": self._references(control, _ANSWERS)}

    def _add_evaluator(self) -> None:
        topology, group = self._topology, self._topology.evaluator_group
        for topic in self._event_topics():
            self._add_operation("evaluator", "send", topic, reply=self._reply())
        for topic in (topology.control(), topology.commands(), topology.external()):
            self._add_operation("evaluator", "receive", topic, group=group)
            self._add_operation("evaluator", "send", topology.dlq(topic))
        self._add_operation("evaluator", "send", topology.lifecycle())
        for topic in (topology.definitions(), topology.schemas()):
            self._add_operation("evaluator", "receive", topic)

    def _add_agent(self) -> None:
        topology = self._topology
        for topic, facets in self._event_topics().items():
            group = self._config.agent_group(facets[0]) if len(facets) == 1 else None
            self._add_operation("agent", "receive", topic, group=group, reply=self._reply())
            self._add_operation("agent", "send", topology.dlq(topic))
        self._add_operation("agent", "send", topology.control())
        self._add_operation("agent", "receive", topology.schemas())

    def _add_client(self) -> None:
        topology = self._topology
        for topic in (topology.commands(), topology.external(), topology.definitions()):
            self._add_operation("client", "send", topic)
        self._add_operation("client", "receive", topology.lifecycle())

    def _add_audit(self) -> None:
        unread = {self._topology.definitions(), self._topology.schemas()}
        for topic in self._channels:
            if topic not in unread:
                self._add_operation("audit", "receive", topic)


def _with_namespaces(schema: Any) -> Any:
    """Return an Avro schema whose full names are names and namespaces: AsyncAPI's schema of Avro takes no others."""
    if isinstance(schema, list):
        return [_with_namespaces(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    parted = {key: value if key in ("default", "doc") else _with_namespaces(value) for key, value in schema.items()}
    namespace, dot, name = str(schema.get("name", "")).rpartition(".")
    return {**parted, "name": name, "namespace": namespace} if dot else parted


def _moved(schema: Any) -> Any:
    """Return a JSON Schema whose references to its definitions lead to the document's schemas."""
    if isinstance(schema, Mapping):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/schema.") if key == "$ref" else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(item) for item in schema] if isinstance(schema, Sequence) and not isinstance(schema, str) else schema
