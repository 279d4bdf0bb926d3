"""The section of the settings about the HTTP gateway: where it listens, the facets that it serves, and webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from afl_stream.errors import ConfigError
from afl_stream.settings.sections import choice, listed, number, text

_WEBHOOKS = "FACET=URL pairs, separated by commas; each URL http or https, with a host and without a user"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The HTTP API of `afl-stream gateway`.

    On an address of this machine alone everybody on it may do everything. Elsewhere a token is needed.
    """

    port: int = number(8234, 0, "port of the gateway; 0: a free one")
    host: str = text("127.0.0.1", "address to listen on; any but this machine's own needs `token_file`")
    token_file: str | None = text(
        None,
        "file of tokens, one a line: `NAME ROLE TOKEN`, roles `read`, `work`, `operate`, `migrate`; its owner's only",
    )
    allowed_hosts: str | None = listed(
        None, "further names under which it is reached; `localhost` and the address it listens on always are"
    )
    requests_per_s: int = number(1_000, 1, "requests of one address in a second, four times as many at once")
    facets: str | None = listed(None, "facets whose events workers may take here, by their qualified names")
    max_held: int = number(100, 1, "events of one facet that are held at once, waiting or leased; more stay in Kafka")
    lease_s: int = number(60, 1, "how long a worker has for an event, unless it asks for another time or extends it")
    max_lease_s: int = number(3_600, 1, "longest lease that a worker may ask for at a time")
    max_wait_s: int = number(30, 0, "longest wait of one request, for events or for the end of a run")
    max_tries: int = number(0, 0, "leases of one event that may run out before its step fails; 0: any number")
    webhooks: str | None = listed(None, "facets whose events are posted to a URL, as `FACET=URL`")
    webhook_secret: str | None = text(
        None, "secret that signs what is posted; `whsec_...` is read as base64", secret=True
    )
    webhook_timeout_s: int = number(30, 1, "how long the receiver of an event has to answer")
    webhook_concurrent: int = number(16, 1, "events of one facet that are posted at once")
    webhook_addresses: str = choice(
        "any",
        ("any", "public"),
        "where events may be posted: `any` address but link-local ones, or `public` ones only",
    )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the further names under which it is reached."""
        return _names(self.allowed_hosts)

    @property
    def polled_facets(self) -> tuple[str, ...]:
        """Return the facets whose events workers may take."""
        return _names(self.facets)

    def webhook_urls(self) -> Mapping[str, str]:
        """Return the URL of each facet that has one. Raises ConfigError."""
        found: dict[str, str] = {}
        for pair in _names(self.webhooks):
            facet, equals, url = (part.strip() for part in pair.partition("="))
            parts = urlsplit(url)
            if not equals or not facet or parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
                raise ConfigError("the settings", "gateway.webhooks", pair, _WEBHOOKS)
            found[facet] = url
        return found


def _names(setting: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (setting or "").split(",") if name.strip())
