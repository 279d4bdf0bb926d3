"""The settings of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl.core.text.masking import MASK, shown_url
from afl_stream.errors import ConfigError
from afl_stream.settings.sections import address, choice, number, text

SUBJECT_STRATEGIES: Final = ("topic_name", "record_name", "topic_record_name")
AUTO_REGISTER: Final = ("auto", "on", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The schema registry that keeps the writer schemas, in place of the schemas topic."""

    url: str | None = address(
        None,
        "registry that speaks Confluent's API: `http://host:8081`; several separated by commas are tried in turn",
        several=True,
    )
    subject_strategy: str = choice(
        "topic_name",
        SUBJECT_STRATEGIES,
        "subjects of schemas: `topic_name` (`<topic>-value`; with the record's name where a topic carries several), "
        "`record_name` or `topic_record_name`",
    )
    auto_register: str = choice(
        "auto",
        AUTO_REGISTER,
        "whether services register schemas that are not there: `on`, `off`, or `auto`: on the embedded log only; where "
        "not, `afl-stream schemas register` does",
    )
    timeout_s: int = number(5, 1, "how long one answer of the registry is waited for, before it counts as away")
    user: str | None = text(None, "user name, for basic authentication")
    password: str | None = text(None, "the user's password", secret=True)
    bearer_token: str | None = text(None, "token, for bearer authentication", secret=True)
    logical_cluster: str | None = text(None, "with a token, the registry's cluster, where it is in Confluent Cloud")
    identity_pool: str | None = text(None, "with a token, the identity pool, where it is in Confluent Cloud")
    ca_file: str | None = text(None, "certificates that may sign the registry's, as a file or folder of PEM")
    certificate_file: str | None = text(None, "certificate that this client shows, as a PEM file")
    key_file: str | None = text(None, "key of that certificate, as a PEM file")
    key_password: str | None = text(None, "password of that key", secret=True)

    def __post_init__(self) -> None:
        """Treat an empty url, as an unset variable leaves it, as no url."""
        object.__setattr__(self, "url", self.url or None)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the registry, to be tried in turn; none: there is no registry."""
        return tuple(url.strip() for url in (self.url or "").split(",") if url.strip())

    def registers(self, *, is_kafka: bool) -> bool:
        """Return whether services register the schemas that the registry lacks."""
        return self.auto_register == "on" or (self.auto_register == "auto" and not is_kafka)


def check_registry(registry: RegistrySettings, source: str) -> None:
    """Refuse settings that do not go together; `source` says where they were given. Raises ConfigError."""
    for url in registry.urls:
        if not url.startswith(("http://", "https://")):
            wanted = "http://host:port or https://host:port, or several separated by commas"
            raise ConfigError(source, "registry.url", shown_url(url), wanted)
    if registry.bearer_token is not None and registry.user is not None:
        raise ConfigError(source, "registry.user", registry.user, "either this or registry.bearer_token, not both")
    if registry.user is not None and any("@" in url for url in registry.urls):
        raise ConfigError(source, "registry.user", registry.user, "either this or a user in registry.url, not both")
    if registry.password is not None and registry.user is None:
        raise ConfigError(source, "registry.password", MASK, "registry.user to be set as well")
    if registry.key_file is not None and registry.certificate_file is None:
        raise ConfigError(source, "registry.key_file", registry.key_file, "registry.certificate_file to be set as well")
