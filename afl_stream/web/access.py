"""Who asks: the people and programs that may read or operate, and how a request shows which of them it is from."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from afl.core.text.exception_text import exception_text
from afl_stream.errors import StreamError
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.settings.gateway import GatewaySettings

#: A token of fewer characters could be guessed.
MIN_TOKEN_CHARS: Final = 20


class Role(StrEnum):
    """What somebody may do."""

    READ = "read"
    #: Takes events of facets and answers them: the gateway's workers.
    WORK = "work"
    OPERATE = "operate"
    #: Operates, and moves runs to other versions of their programs, too. On a dashboard those who operate do.
    MIGRATE = "migrate"


#: The roles that tokens of a dashboard, and of a gateway, may have.
DASHBOARD_ROLES: Final = (Role.READ, Role.OPERATE)
GATEWAY_ROLES: Final = (Role.READ, Role.WORK, Role.OPERATE, Role.MIGRATE)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks, by the name under which actions are logged."""

    name: str
    role: Role

    @property
    def may_operate(self) -> bool:
        return self.role in (Role.OPERATE, Role.MIGRATE)

    @property
    def may_work(self) -> bool:
        return self.role is Role.WORK or self.may_operate

    @property
    def may_migrate(self) -> bool:
        return self.role is Role.MIGRATE


class AccessRefused(StreamError):
    """The settings would let anybody in, or the file of tokens cannot be used."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server: a dashboard, or a gateway.

    Without tokens and without a proxy everybody on this machine may operate. `section` is where its settings are.
    """

    host: str
    is_read_only: bool = False
    #: Digests of tokens, and whose they are.
    tokens: Mapping[bytes, Principal] = field(default_factory=dict, repr=False)
    allowed_hosts: frozenset[str] = frozenset()
    proxy_user_header: str | None = None
    proxy_addresses: frozenset[str] = frozenset()
    proxy_operators: frozenset[str] = frozenset()
    requests_per_s: int = 100
    section: str = "dashboard"
    #: Who asks on this machine where nobody has to sign in.
    local: Principal = Principal("local", Role.OPERATE)

    @classmethod
    def of(cls, settings: DashboardSettings, host: str, *, read_only: bool = False) -> Access:
        """Return the rules that the settings make. Raises AccessRefused."""
        tokens = {} if settings.token_file is None else read_tokens(Path(settings.token_file))
        if not is_loopback(host) and not tokens and not settings.proxy_user_header:
            raise AccessRefused(
                f"the dashboard would listen on {host} for anybody: give a file of tokens (--token-file, "
                "dashboard.token_file) or a proxy that signs users in (dashboard.proxy_user_header), or listen on "
                "127.0.0.1"
            )
        return cls(
            host=host,
            is_read_only=read_only or settings.read_only,
            tokens=tokens,
            allowed_hosts=frozenset(name.lower() for name in (*_own_names(host), *settings.names_of("allowed_hosts"))),
            proxy_user_header=(settings.proxy_user_header or "").lower() or None,
            proxy_addresses=frozenset(settings.names_of("proxy_addresses")),
            proxy_operators=frozenset(settings.names_of("proxy_operators")),
            requests_per_s=settings.requests_per_s,
        )

    @classmethod
    def of_gateway(cls, settings: GatewaySettings, host: str) -> Access:
        """Return the rules that the settings of a gateway make. Raises AccessRefused."""
        tokens = {} if settings.token_file is None else read_tokens(Path(settings.token_file), GATEWAY_ROLES)
        if not is_loopback(host) and not tokens:
            raise AccessRefused(
                f"the gateway would listen on {host} for anybody: give a file of tokens (--token-file, "
                "gateway.token_file), or listen on 127.0.0.1"
            )
        return cls(
            host=host,
            tokens=tokens,
            allowed_hosts=frozenset(name.lower() for name in (*_own_names(host), *settings.hosts)),
            requests_per_s=settings.requests_per_s,
            section="gateway",
            local=Principal("local", GATEWAY_ROLES[-1]),
        )

    @property
    def is_open(self) -> bool:
        """Return whether everybody on this machine is let in."""
        return not self.tokens and self.proxy_user_header is None

    def of_token(self, token: str) -> Principal | None:
        """Return whose token this is. All digests are compared, so that time tells nothing."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found: Principal | None = None
        for known, principal in self.tokens.items():
            if hmac.compare_digest(known, digest):
                found = principal
        return found

    def of_proxy(self, address: str, headers: Mapping[str, str]) -> Principal | None:
        """Return the user that a proxy names; None: the request is from nobody that may name one."""
        if self.proxy_user_header is None or address not in self.proxy_addresses:
            return None
        name = headers.get(self.proxy_user_header, "").strip()
        if not name:
            return None
        operates = name in self.proxy_operators or "*" in self.proxy_operators
        return Principal(name[:200], Role.OPERATE if operates else Role.READ)

    def limited(self, principal: Principal) -> Principal:
        """Return somebody as the dashboard lets them act: nobody operates a read-only one."""
        return Principal(principal.name, Role.READ) if self.is_read_only else principal

    def takes_host(self, host: str) -> bool:
        """Return whether a request's `Host` names this server, whatever its port: another one was rebound by DNS."""
        return host_name(host) in self.allowed_hosts


def read_tokens(path: Path, roles: Sequence[Role] = DASHBOARD_ROLES) -> dict[bytes, Principal]:
    """Return the digests of the tokens in a file. Raises AccessRefused, which shows no token."""
    form = f"NAME ROLE TOKEN, the role {', '.join(roles[:-1])} or {roles[-1]}"
    try:
        mode, lines = path.stat().st_mode, path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessRefused(f"the file of tokens {path} cannot be read: {exception_text(error)}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise AccessRefused(f"the file of tokens {path} can be read by others than its owner: chmod 600 {path}")
    found: dict[bytes, Principal] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or words[1] not in roles:
            raise AccessRefused(f"{path}, line {number}: expected {form}")
        if len(words[2]) < MIN_TOKEN_CHARS:
            raise AccessRefused(
                f"{path}, line {number}: the token of {words[0]} has {len(words[2])} characters; at least "
                f"{MIN_TOKEN_CHARS} are needed: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        found[hashlib.sha256(words[2].encode()).digest()] = Principal(words[0], Role(words[1]))
    if not found:
        raise AccessRefused(f"the file of tokens {path} has none: each line is {form}")
    return found


def is_loopback(host: str) -> bool:
    """Return whether an address is only reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """Return the name in `name:port`, in lower case and without the brackets of IPv6."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _own_names(host: str) -> Sequence[str]:
    # A wildcard is no name under which a browser asks.
    own = () if host in ("0.0.0.0", "::", "") else (host,)
    return ("localhost", "127.0.0.1", "::1", *own)
