"""Webhooks: each event of a facet is posted to a URL, and the response is its answer."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import ipaddress
import logging
import socket
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from afl.core.clock import Clock, SystemClock
from afl.core.handlers.calling import FACET_NAME_KEY, METADATA_KEY, Deferred
from afl.core.handlers.context import HandlerContext
from afl.core.handlers.outcomes import PlainFailure
from afl.core.handlers.retry import RetryPolicy
from afl.core.json_objects import read_json, write_json
from afl.core.release import VERSION
from afl.core.text.exception_text import exception_line
from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.errors import ConfigError
from afl_stream.gateway.event_documents import event_document
from afl_stream.gateway.holding import observer_of
from afl_stream.gateway.lease_ids import LeasedEvent, lease_id
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.gateway import GatewaySettings
from afl_stream.transport import Transport

_log = logging.getLogger(__name__)

#: The most bytes of a response that are read.
MOST_BYTES: Final = 4_000_000
#: Statuses after which the same request may be taken another time.
_LATER: Final = frozenset({408, 425, 429})
#: Where neither the settings of agents nor anybody else says how an event is tried again.
DEFAULT_RETRY: Final = RetryPolicy(
    max_attempts=5, backoff_s=1.0, factor=2.0, max_backoff_s=60.0, jitter=0.2, retry_on=("WebhookFailed",)
)
_SECRET_START: Final = "whsec_"


class WebhookFailed(PlainFailure):
    """The receiver could not be reached, or not answer now: worth another try."""


class WebhookRefused(PlainFailure):
    """The receiver has refused the event, redirected it, or sent what is no answer: the step fails."""


def signature(secret: bytes, message_id: str, at_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`, as the Standard Webhooks convention has it."""
    signed = b"%s.%d.%s" % (message_id.encode(), at_s, body)
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def secret_of(settings: GatewaySettings) -> bytes | None:
    """Return the bytes of the secret that signs. Raises ConfigError."""
    text = settings.webhook_secret
    if text is None:
        return None
    if not text.startswith(_SECRET_START):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_SECRET_START), validate=True)
    except (ValueError, binascii.Error):
        raise ConfigError("the settings", "gateway.webhook_secret", "***", "base64 after whsec_") from None


class Webhook:
    """Posts the events of one facet to one URL. A handler of an agent."""

    def __init__(self, url: str, settings: GatewaySettings, *, clock: Clock | None = None) -> None:
        self._parts = urlsplit(url)
        self._settings = settings
        self._secret = secret_of(settings)
        self._clock = clock or SystemClock()
        self._warnings = LimitedLog(_log)

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Mapping[str, Any] | Deferred:
        """Post an event; return its answer, or Deferred where the receiver answers later.

        Raises WebhookFailed and WebhookRefused.
        """
        given = {name: value for name, value in payload.items() if name not in (FACET_NAME_KEY, METADATA_KEY)}
        event = LeasedEvent.of(context)
        document = {**event_document(given, context), "lease": lease_id(event)}
        body = write_json(document, indent=None).encode("utf-8", "replace")
        try:
            return self._answer(*self._sent(body, context))
        except WebhookFailed as error:
            text, about = "event %s of %s was not taken, try %d: %s", (context.event_id, context.facet, context.tries)
            self._warnings.warning(f"failed tries of {self._place}", text, *about, error)
            raise

    @property
    def _place(self) -> str:
        """The URL as messages show it: its query may hold a key."""
        return f"{self._parts.scheme}://{self._parts.netloc}{self._parts.path}"

    def _sent(self, body: bytes, context: HandlerContext) -> tuple[int, bytes]:
        """Post a body, and return status and body of the response. Raises WebhookFailed without one."""
        try:
            return self._post(body, context)
        except TimeoutError as error:
            limit = f"{self._settings.webhook_timeout_s:g} s (gateway.webhook_timeout_s)"
            raise WebhookFailed(f"{self._place} has not answered within {limit}") from error
        except (OSError, http.client.HTTPException) as error:
            raise WebhookFailed(f"{self._place} could not be reached: {exception_line(error)}") from error

    def _answer(self, status: int, content: bytes) -> Mapping[str, Any] | Deferred:
        if status == 202:
            return Deferred()
        if status in _LATER or status >= 500:
            raise WebhookFailed(f"{self._place} answered {status}")
        if not 200 <= status < 300:
            hint = "; redirects are not followed" if 300 <= status < 400 else ""
            raise WebhookRefused(f"{self._place} answered {status}{hint}")
        if not content.strip():
            return {}
        if len(content) > MOST_BYTES:
            raise WebhookRefused(f"{self._place} answered with more than {MOST_BYTES:,} bytes")
        try:
            found = read_json(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise WebhookRefused(f"{self._place} answered {status}, and its body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise WebhookRefused(f"{self._place} answered {status} with a {type(found).__name__}, not a JSON object")
        return found

    def _post(self, body: bytes, context: HandlerContext) -> tuple[int, bytes]:
        parts = self._parts
        assert parts.hostname is not None
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        timeout_s = self._settings.webhook_timeout_s
        connected = self._connected(parts.hostname, port, timeout_s)
        connection = http.client.HTTPConnection(parts.hostname, port, timeout=timeout_s)
        try:
            # Connected to the address that was checked: a second look-up of the name could give another one.
            connection.sock = (
                ssl.create_default_context().wrap_socket(connected, server_hostname=parts.hostname)
                if is_tls
                else connected
            )
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, self._headers(body, context))
            response = connection.getresponse()
            return response.status, response.read(MOST_BYTES + 1)
        finally:
            connected.close()
            connection.close()

    def _headers(self, body: bytes, context: HandlerContext) -> dict[str, str]:
        at_s = self._clock.now_ms() // 1000
        default_port = 443 if self._parts.scheme == "https" else 80
        host = self._parts.hostname or ""
        shown = f"[{host}]" if ":" in host else host
        headers = {
            "Host": shown if self._parts.port in (None, default_port) else f"{shown}:{self._parts.port}",
            "Content-Type": "application/json",
            "User-Agent": f"afl-stream-gateway/{VERSION}",
            "webhook-id": context.event_id,
            "webhook-timestamp": str(at_s),
        }
        if self._secret is not None:
            headers["webhook-signature"] = signature(self._secret, context.event_id, at_s, body)
        if context.traceparent:
            headers["traceparent"] = context.traceparent
        return headers

    def _connected(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Return a connection to the first address of a host that may be posted to and answers."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        allowed = [entry for entry in found if self._may_reach(str(entry[4][0]))]
        if not allowed:
            addresses = ", ".join(sorted({str(entry[4][0]) for entry in found}))
            raise WebhookRefused(
                f"{self._place} is at {addresses}, where nothing may be posted (gateway.webhook_addresses is "
                f"{self._settings.webhook_addresses}; link-local addresses never are)"
            )
        for number, (family, kind, protocol, _, address) in enumerate(allowed, start=1):
            connecting = socket.socket(family, kind, protocol)
            connecting.settimeout(timeout_s)
            try:
                connecting.connect(address)
            except OSError:
                connecting.close()
                if number == len(allowed):
                    raise
            else:
                return connecting
        raise AssertionError("there is an address")

    def _may_reach(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        # Clouds give keys of a machine away at a link-local address.
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        return self._settings.webhook_addresses == "any" or address.is_global


def webhook_agent(config: StreamConfig, transport: Transport, facet: str, url: str, *, name: str) -> Agent:
    """Return the agent that posts the events of a facet. Raises ConfigError."""
    own = replace(config.agent, max_concurrent=config.gateway.webhook_concurrent)
    agent_config = AgentConfig(stream=replace(config, agent=own), name=name, observer=observer_of(config))
    agent = Agent(agent_config, transport)
    retry = DEFAULT_RETRY if agent_config.retry is None else None
    agent.register(facet, Webhook(url, config.gateway), retry=retry)
    return agent
