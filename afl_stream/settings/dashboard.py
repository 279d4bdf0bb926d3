"""The section of the settings about the dashboard: where it listens, and who may do what."""

from __future__ import annotations

from dataclasses import dataclass

from afl_stream.errors import ConfigError
from afl_stream.settings.sections import flag, listed, number, text

_TRACE_ID = "{trace_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """The pages and the JSON API of `afl-stream dashboard`.

    On an address of this machine alone everybody on it may operate. Elsewhere a token or the user's name in a header of
    a proxy is needed.
    """

    port: int = number(8233, 0, "port of the pages and of `/api`; 0: a free one")
    host: str = text("127.0.0.1", "address to listen on; any but this machine's own needs `token_file` or a proxy")
    read_only: bool = flag(False, "whether every action is refused, whoever asks")
    token_file: str | None = text(
        None, "file of tokens, one a line: `NAME ROLE TOKEN`, the role `read` or `operate`; readable by its owner only"
    )
    allowed_hosts: str | None = listed(
        None, "further names under which browsers reach it; `localhost` and the address it listens on always are"
    )
    proxy_user_header: str | None = text(
        None, "header in which a proxy that signs users in (OIDC) names them: `X-Forwarded-User`"
    )
    proxy_addresses: str = listed("127.0.0.1,::1", "addresses of that proxy: the header of anybody else is ignored")
    proxy_operators: str | None = listed(None, "users of the proxy who may operate; `*`: all. The others read")
    requests_per_s: int = number(100, 1, "requests of one address in a second, four times as many at once")
    trace_url: str | None = text(
        None, "where your viewer shows a trace, which pages then link to: `https://jaeger.example/trace/{trace_id}`"
    )

    def trace_link(self, trace_id: str) -> str | None:
        """Return where a trace is shown; None: no setting says it."""
        return None if self.trace_url is None else self.trace_url.replace(_TRACE_ID, trace_id)

    def names_of(self, setting: str) -> tuple[str, ...]:
        """Return the names in one of the lists."""
        found: str | None = getattr(self, setting)
        return tuple(name.strip() for name in (found or "").split(",") if name.strip())


def check_dashboard(dashboard: DashboardSettings, source: str) -> None:
    """Refuse an address of traces that is none, or has no place for the trace's id."""
    url = dashboard.trace_url
    if url is not None and not (url.startswith(("http://", "https://")) and _TRACE_ID in url):
        raise ConfigError(source, "dashboard.trace_url", url, f"an http or https address with {_TRACE_ID}")
