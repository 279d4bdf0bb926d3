"""A broker that refuses all that no ACL gives: with TLS and passwords, client certificates, and tokens of OAuth."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from afl_stream.broker.ports import HOST
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import load_config
from afl_stream.topics.acls import acls_of, rights_of
from afl_stream.topics.declared import Topology
from afl_stream.topics.rights import Role, Scope
from tests.worlds.certificates import Authority
from tools.kafka import Broker, Listener

#: Users with passwords.
OPERATOR, EVALUATOR, PING, NOTE, STRANGER = "operator", "evaluator", "ping", "note", "stranger"
GATEWAY, BRIDGE, WORKER, CLIENT, SUBSCRIBER = "gateway", "bridge", "worker", "client", "subscriber"
_WITH_PASSWORDS: Final = (
    OPERATOR, EVALUATOR, PING, NOTE, STRANGER, GATEWAY, BRIDGE, WORKER, CLIENT, SUBSCRIBER
)  # fmt: skip
#: Who has a certificate, and who come with tokens.
AUDIT, STARTER, PRODUCER, DASHBOARD = "audit", "starter", "producer", "dashboard"
_PASSWORD: Final = "right-one"
_SCRAM, _CERTIFICATE, _TOKEN = "SCRAM", "CERTIFICATE", "TOKEN"
_TOKEN_S: Final = 3_600
#: A line of the broker's log about a refusal.
_REFUSAL: Final = re.compile(r"Principal = (\S+) is Denied operation = (\w+) ")


@dataclass(frozen=True, kw_only=True)
class SecuredCluster:
    """The broker, and the settings of each user as variables. `administrator`: who may do everything."""

    broker: Broker
    authority: Authority
    folder: Path
    token_url: str
    shared: Mapping[str, str]

    @property
    def administrator(self) -> dict[str, str]:
        return {**self.shared, "AFL_KAFKA_BOOTSTRAP": self.broker.bootstrap}

    def user(self, name: str) -> dict[str, str]:
        """Return the settings of a user: each logs in by the way that is its own."""
        secured = {**self.shared, "AFL_KAFKA_SSL_CA_LOCATION": str(self.authority.path)}
        if name == AUDIT:
            identity = str(self.folder / f"{name}.pem")
            return {
                **secured,
                "AFL_KAFKA_BOOTSTRAP": self.broker.address_of(_CERTIFICATE),
                "AFL_KAFKA_SECURITY_PROTOCOL": "SSL",
                "AFL_KAFKA_SSL_CERTIFICATE_LOCATION": identity,
                "AFL_KAFKA_SSL_KEY_LOCATION": identity,
            }
        if name in (STARTER, PRODUCER, DASHBOARD):
            return {
                **secured,
                "AFL_KAFKA_BOOTSTRAP": self.broker.address_of(_TOKEN),
                "AFL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
                "AFL_KAFKA_SASL_MECHANISM": "OAUTHBEARER",
                "AFL_KAFKA_SASL_OAUTHBEARER_METHOD": "oidc",
                "AFL_KAFKA_SASL_OAUTHBEARER_CLIENT_ID": name,
                "AFL_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": _PASSWORD,
                "AFL_KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": self.token_url,
            }
        return {
            **secured,
            "AFL_KAFKA_BOOTSTRAP": self.broker.address_of(_SCRAM),
            "AFL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "AFL_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
            "AFL_KAFKA_SASL_USERNAME": name,
            "AFL_KAFKA_SASL_PASSWORD": _PASSWORD,
        }

    def principal(self, name: str) -> str:
        """Return a user's name, as the broker has it."""
        return f"User:CN={name}" if name == AUDIT else f"User:{name}"

    def principals(self) -> list[str]:
        """Return the names of all users, as the broker has them."""
        return [self.principal(name) for name in (*_WITH_PASSWORDS, AUDIT, STARTER, PRODUCER, DASHBOARD)]

    def refusals(self) -> set[tuple[str, str]]:
        """Return what the broker has refused so far: users and operations."""
        return set(_REFUSAL.findall(self.broker.log_path.read_text()))

    def librdkafka(self, name: str) -> dict[str, Any]:
        """Return the settings with which a user calls librdkafka itself."""
        if name in (STARTER, PRODUCER, DASHBOARD):
            return {
                "bootstrap.servers": self.broker.address_of(_TOKEN),
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={name}",
                "ssl.ca.location": str(self.authority.path),
                "log_level": 0,
            }
        return {
            "bootstrap.servers": self.broker.address_of(_SCRAM),
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": name,
            "sasl.password": _PASSWORD,
            "ssl.ca.location": str(self.authority.path),
            "log_level": 0,
        }

    def give(self, name: str, role: Role, scope: Scope | None = None) -> None:
        """Give a user the rights of a role, and no other."""
        config = load_config(environ=self.administrator)
        with closing(KafkaTransport(config)) as transport:
            transport.admin().create_acls(acls_of(rights_of(role, Topology(config), scope), self.principal(name)))


@contextmanager
def secured_cluster(folder: Path, shared: Mapping[str, str]) -> Iterator[SecuredCluster]:
    """Start the broker, and what gives tokens; `shared` are the settings that all users have."""
    authority = Authority(folder)
    authority.identity(AUDIT)
    tls = {
        "ssl.keystore.location": str(authority.identity("broker")),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(authority.path),
        "ssl.truststore.type": "PEM",
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    # It believes any token: whether tokens are checked is a matter of the broker, not ours.
    bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    listeners = [
        Listener(
            name=_SCRAM,
            protocol="SASL_SSL",
            properties={
                **tls, "sasl.enabled.mechanisms": "SCRAM-SHA-256", "scram-sha-256.sasl.jaas.config": scram,
            },
        ),
        Listener(name=_CERTIFICATE, protocol="SSL", properties={**tls, "ssl.client.auth": "required"}),
        Listener(
            name=_TOKEN,
            protocol="SASL_SSL",
            properties={
                **tls, "sasl.enabled.mechanisms": "OAUTHBEARER", "oauthbearer.sasl.jaas.config": bearer,
            },
        ),
    ]  # fmt: skip
    users = dict.fromkeys(_WITH_PASSWORDS, _PASSWORD)
    with ExitStack() as opened:
        token_url = opened.enter_context(_token_endpoint())
        broker = opened.enter_context(Broker.start(folder / "broker", scram_users=users, listeners=listeners))
        yield SecuredCluster(broker=broker, authority=authority, folder=folder, token_url=token_url, shared=shared)


class _Tokens(BaseHTTPRequestHandler):
    """Gives whoever asks a token in the name of its client id."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        credentials = self.headers.get("Authorization", "").removeprefix("Basic ")
        name, _, _ = base64.b64decode(credentials).decode().partition(":")
        now_s = time.time()
        parts = ({"alg": "none"}, {"sub": name, "iat": now_s, "exp": now_s + _TOKEN_S})
        token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        answer = json.dumps({"access_token": f"{token}.", "token_type": "Bearer", "expires_in": _TOKEN_S}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def _token_endpoint() -> Iterator[str]:
    with ThreadingHTTPServer((HOST, 0), _Tokens) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://{HOST}:{server.server_port}/token"
        server.shutdown()
        thread.join()
