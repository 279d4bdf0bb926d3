"""The client of a registry against a server of the test's own: credentials, headers with GUIDs, and odd answers."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.errors import ConfigError, Reason, SchemaUnavailable, Unreadable
from afl_stream.registry.client import RegistryClient
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.resources import schema_text
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.registry import RegistrySettings
from afl_stream.topics.declared import Topology
from afl_stream.wire.framing import VALUE_SCHEMA_HEADER
from afl_stream.wire.messages import StepContinue

GUID = UUID("89791762-2336-186f-9674-180ca491a16b")


class Registry(ThreadingHTTPServer):
    """Answers by path, with a status and a document; keeps the credentials that it was given."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.given: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.given.append(self.headers.get("Authorization"))
        code, document = self.server.answers.get(self.path.partition("?")[0], (404, {"error_code": 404}))
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(registry: Registry, **settings: Any) -> str:
    with closing(RegistryClient(RegistrySettings(url=registry.url, **settings))) as client:
        return client.schema_by_id(7)


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({}, None),
        ({"user": "kim", "password": "pässword"}, "Basic " + base64.b64encode("kim:pässword".encode()).decode()),
        ({"bearer_token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_the_registry_is_given_the_credentials_of_the_settings(
    settings: dict[str, str], given: str | None, registry: Registry
) -> None:
    registry.answers["/schemas/ids/7"] = (200, {"schema": '"string"'})

    assert asked(registry, **settings) == '"string"'
    assert registry.given == [given]


@pytest.mark.parametrize("code", [401, 403])
def test_refused_credentials_are_waited_for_and_the_settings_are_named(code: int, registry: Registry) -> None:
    registry.answers["/schemas/ids/7"] = (code, {"error_code": code, "message": "no"})

    with pytest.raises(SchemaUnavailable, match=rf"HTTP {code}: no; see the settings registry\.user"):
        asked(registry)


@pytest.mark.parametrize("answer", [{}, {"schema": None}, {"schema": 5}, [], "text", None])
def test_an_answer_without_a_schema_is_none_of_a_registry(answer: Any, registry: Registry) -> None:
    registry.answers["/schemas/ids/7"] = (200, answer)

    with pytest.raises(SchemaUnavailable):
        asked(registry)


def test_a_schema_of_another_kind_can_never_be_read(registry: Registry) -> None:
    registry.answers["/schemas/ids/7"] = (200, {"schema": "syntax = 3;", "schemaType": "PROTOBUF"})

    with pytest.raises(Unreadable, match="of type PROTOBUF, not Avro"):
        asked(registry)


def test_a_record_whose_header_has_a_guid_is_read(registry: Registry) -> None:
    registry.answers[f"/schemas/guids/{GUID}"] = (200, {"schema": schema_text("step_continue"), "guid": str(GUID)})
    config = replace(StreamConfig(), registry=RegistrySettings(url=registry.url))
    body = b"\x06w:1" + b"\x00" + b"\x00" * 6

    with (
        closing(EmbeddedTransport()) as transport,
        closing(DeploymentCodec(config, transport, Topology(config))) as made,
    ):
        headers = [(VALUE_SCHEMA_HEADER, b"\x01" + GUID.bytes)]
        first, second = made.codec.decode(body, headers), made.codec.decode(body, headers)

    assert first == second == StepContinue(step_id="w:1", result={})
    assert len(registry.given) == 1, "a schema is asked for once"


@pytest.mark.parametrize("content", [b"", b"\x01short", b"\x00\x00\x00\x07", b"\x02" + GUID.bytes])
def test_a_header_that_names_no_schema_is_unreadable(content: bytes, registry: Registry) -> None:
    config = replace(StreamConfig(), registry=RegistrySettings(url=registry.url))

    with (
        closing(EmbeddedTransport()) as transport,
        closing(DeploymentCodec(config, transport, Topology(config))) as made,
        pytest.raises(Unreadable, match="expected 01 and the 16 bytes of a GUID") as refused,
    ):
        made.codec.decode(b"\x02a", [(VALUE_SCHEMA_HEADER, content)])

    assert refused.value.reason is Reason.BAD_HEADERS


def test_settings_that_do_not_go_together_are_refused_by_name() -> None:
    wrong: list[tuple[dict[str, str], str]] = [
        ({"url": "kafka:8081"}, "registry.url"),
        ({"user": "kim", "bearer_token": "t"}, "registry.user"),
        ({"url": "http://a:b@host", "user": "kim"}, "registry.user"),
        ({"password": "p"}, "registry.password"),
        ({"key_file": "k.pem"}, "registry.key_file"),
    ]

    for settings, key in wrong:
        with pytest.raises(ConfigError) as refused:
            StreamConfig(registry=RegistrySettings(**settings))  # type: ignore[arg-type]  # texts all of them
        assert refused.value.key == key


def test_the_secrets_of_a_registry_are_shown_nowhere() -> None:
    urls = "http://kim:hunter2secret@one:8081,http://kim:other5ecret@two:8081"
    config = StreamConfig(registry=RegistrySettings(url=urls, bearer_token="t0kent0ken", key_password="keyp4ssword"))

    described = config.describe()

    assert described["registry.url"] == "http://one:8081,http://two:8081"
    assert {"hunter2secret", "other5ecret", "t0kent0ken", "keyp4ssword"} <= config.secrets()
    assert not any(secret in f"{described} {config!r}" for secret in ("hunter2", "other5", "t0ken", "keyp4ss"))
    assert "http" not in config.secrets()
