"""The client of a schema registry: Confluent's own, with errors that say whether waiting helps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID

from afl.core.text.exception_text import exception_line
from afl.core.text.masking import shown_url
from afl.core.text.printable import printable
from afl_stream.errors import ConfigError, Reason, SchemaUnavailable, SchemaUnknown, Unreadable
from afl_stream.registry.errors import RegistryClientMissing, SchemaIncompatible
from afl_stream.registry.pace import Pace
from afl_stream.registry.references import MAX_REFERENCED_SCHEMAS, inlined
from afl_stream.settings.config import RegistrySettings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
#: HTTP codes by which a registry refuses the caller, and not the request.
_DENIED: Final = (401, 403)
#: Codes of Confluent's API for what a registry does not have: subject, version, schema.
_SUBJECT_UNKNOWN: Final = (40401,)
_UNKNOWN: Final = (*_SUBJECT_UNKNOWN, 40402, 40403)
_LEVEL_UNKNOWN: Final = (*_SUBJECT_UNKNOWN, 40408)
#: The longest answer of a registry that an error repeats.
_SHOWN_CHARS: Final = 600


class RegistryClient:
    """Schemas by subject and id. Threads may share it; each call is one request, tried at each url in turn.

    A registry that cannot be reached, answers too late or with a fault, or refuses the credentials raises
    SchemaUnavailable: the caller waits and tries again, since nothing is known about the schema then.

    With a `pace` that is raised at once while the registry is left alone.
    """

    def __init__(self, settings: RegistrySettings, pace: Pace | None = None) -> None:
        """Take the settings; nothing is requested yet. Raises RegistryClientMissing, ConfigError."""
        self._pace = pace
        self.url = ", ".join(shown_url(url) for url in settings.urls)
        self._settings = settings
        self._client: SchemaRegistryClient | None = None
        self._opening = Lock()
        try:
            import confluent_kafka.schema_registry  # noqa: F401 - whether its libraries are there
        except ImportError as error:
            raise RegistryClientMissing(error.name or "its client") from error

    def schema_by_id(self, schema_id: int) -> str:
        """Return the text of the schema with this id. Raises SchemaUnknown, SchemaUnavailable, Unreadable."""
        with self._request(f"schema {schema_id}", schema_id=str(schema_id)):
            return self._whole_text(self._opened().get_schema(schema_id))

    def schema_by_guid(self, guid: UUID) -> str:
        """Return the text of the schema with this GUID. Raises as `schema_by_id`; Unreadable without GUIDs there."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        with self._request(f"schema {guid}", schema_id=str(guid)):
            try:
                return self._whole_text(self._opened().get_schema_by_guid(str(guid)))
            except SchemaRegistryError as error:
                if error.http_status_code != _NOT_FOUND or error.error_code in _UNKNOWN:
                    raise
                # The request itself is unknown: a wrong url, or a registry of an older API. Any knows its types.
                self._opened().get_schema_types()
                text = f"the registry {self.url} does not know schemas by GUID, and a header names {guid}"
                raise Unreadable(Reason.UNKNOWN_SCHEMA, text) from error

    def id_of(self, subject: str, text: str) -> int | None:
        """Return the id of a schema under a subject; None when it is not registered there. Raises SchemaUnavailable."""
        with self._request(f"subject {subject}", missing=_UNKNOWN) as found:
            found.append(self._opened().lookup_schema(subject, _schema(text)).schema_id)
        return int(found[0]) if found and found[0] is not None else None

    def register(self, topic: str, subject: str, record: str, text: str) -> int:
        """Register a schema under a subject, unless it is there, and return its id; record and topic are for errors.

        Raises SchemaIncompatible and SchemaUnavailable.
        """
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        # It follows a look-up, which is repeated when this is not done: a pause between them would never end.
        with self._request(f"subject {subject}", follows=True):
            try:
                return int(self._opened().register_schema(subject, _schema(text)))
            except SchemaRegistryError as error:
                if error.http_status_code != _CONFLICT:
                    raise
                raise SchemaIncompatible(topic, subject, record, _shown(error.error_message)) from error

    def texts(self, subject: str) -> list[tuple[int, str]]:
        """Return number and text of each version of a subject, oldest first; none for an unknown subject.

        Raises SchemaUnavailable and Unreadable.
        """
        with self._request(f"subject {subject}", missing=_UNKNOWN) as found:
            for number in sorted(self._opened().get_versions(subject)):
                version = self._opened().get_version(subject, number)
                found.append((number, self._whole_text(version.schema)))
        return found

    def compatibility(self, subject: str) -> str | None:
        """Return the level of a subject itself; None when the registry's own holds. Raises SchemaUnavailable."""
        with self._request(f"compatibility of {subject}", missing=_LEVEL_UNKNOWN) as found:
            found.append(self._opened().get_compatibility(subject))
        return str(found[0]) if found else None

    def own_compatibility(self) -> str | None:
        """Return the registry's own level, for subjects without one. Raises SchemaUnavailable."""
        with self._request("the registry's compatibility") as found:
            found.append(self._opened().get_compatibility())
        return str(found[0]) if found and found[0] else None

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set the level of a subject. Raises SchemaUnavailable."""
        with self._request(f"compatibility of {subject}"):
            self._opened().set_compatibility(subject, level)

    def close(self) -> None:
        """Close the connections."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self) -> SchemaRegistryClient:
        with self._opening:
            if self._client is None:
                from confluent_kafka.schema_registry import SchemaRegistryClient

                try:
                    self._client = SchemaRegistryClient(_client_settings(self._settings))
                except (OSError, ValueError) as error:
                    # Certificates that cannot be read, settings that do not go together.
                    raise ConfigError("settings", "registry", exception_line(error), "usable settings") from error
            return self._client

    def _whole_text(self, schema: Any) -> str:
        """Return the text of a schema with the schemas that it refers to. Raises Unreadable for no Avro schema."""
        if schema.schema_type not in (None, "AVRO"):
            raise Unreadable(Reason.BAD_SCHEMA, f"the registry's schema is of type {schema.schema_type}, not Avro")
        text = self._text_of(schema)
        texts: dict[str, str] = {}
        pending = list(schema.references or ())
        while pending:
            reference = pending.pop(0)
            if reference.name in texts:
                continue
            if len(texts) >= MAX_REFERENCED_SCHEMAS:
                raise Unreadable(Reason.BAD_SCHEMA, f"the schema refers to over {MAX_REFERENCED_SCHEMAS} others")
            other = self._opened().get_version(reference.subject, reference.version).schema
            texts[reference.name] = self._text_of(other)
            pending.extend(other.references or ())
        return inlined(text, texts) if texts else text

    def _text_of(self, schema: Any) -> str:
        if not isinstance(schema.schema_str, str):
            raise SchemaUnavailable(self.url, "it answered without a schema")
        return schema.schema_str

    @contextmanager
    def _request(
        self, wanted: str, *, schema_id: str | None = None, missing: tuple[int, ...] = (), follows: bool = False
    ) -> Iterator[list[Any]]:
        """Provide a list for what is found, at the pace of this client; what is `missing` leaves it empty.

        Raises SchemaUnavailable at once while the registry is left alone.
        """
        pace = self._pace if self._pace is not None and not follows else None
        if pace is not None and (cause := pace.rests_because()) is not None:
            raise SchemaUnavailable(f"{wanted} in the registry {self.url}", cause)
        with nullcontext() if pace is None else pace.request(), self._errors_of(wanted, schema_id, missing) as found:
            yield found

    @contextmanager
    def _errors_of(self, wanted: str, schema_id: str | None, missing: tuple[int, ...]) -> Iterator[list[Any]]:
        """Turn the client's errors into ours.

        An answer that is no JSON, or lacks what it should have, comes from something else than the registry.
        """
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

        found: list[Any] = []
        try:
            yield found
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in missing:
                found.clear()
                return
            if schema_id is not None and error.http_status_code == _NOT_FOUND and error.error_code in _UNKNOWN:
                raise SchemaUnknown(schema_id, self.url) from error
            self._unavailable(wanted, error)
        except (SchemaUnavailable, SchemaUnknown, Unreadable, ConfigError):
            raise
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OAuthTokenError) as error:
            raise SchemaUnavailable(f"{wanted} in the registry {self.url}", exception_line(error)) from error
        except Exception as error:
            if not _is_of_http(error):
                raise
            raise SchemaUnavailable(f"{wanted} in the registry {self.url}", exception_line(error)) from error

    def _unavailable(self, wanted: str, error: Any) -> NoReturn:
        cause = f"HTTP {error.http_status_code}: {_shown(error.error_message)}"
        if error.http_status_code in _DENIED:
            cause += "; see the settings registry.user, registry.password and registry.bearer_token"
        raise SchemaUnavailable(f"{wanted} in the registry {self.url}", cause) from error


def _schema(text: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(text, schema_type="AVRO")


def _shown(message: object) -> str:
    return printable(str(message), _SHOWN_CHARS)


def _is_of_http(error: Exception) -> bool:
    """Return whether an error is one of the HTTP library, whichever of two the client uses: reset, timeout, TLS."""
    return any(kind.__module__.partition(".")[0] in ("httpx", "httpx2") for kind in type(error).__mro__)


def _client_settings(settings: RegistrySettings) -> dict[str, Any]:
    """Return the settings by the client's names.

    It tries each url once, at once: the callers wait between attempts, and have more to do meanwhile.
    """
    given: Mapping[str, Any] = {
        "ssl.ca.location": settings.ca_file,
        "ssl.certificate.location": settings.certificate_file,
        "ssl.key.location": settings.key_file,
        "ssl.key.password": settings.key_password,
    }
    client: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    client |= {"url": ",".join(settings.urls), "timeout": float(settings.timeout_s), "max.retries": 0}
    if settings.user is not None:
        client["basic.auth.user.info"] = f"{settings.user}:{settings.password or ''}"
    if settings.bearer_token is not None:
        client["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        client["bearer.auth.token"] = settings.bearer_token
        client["bearer.auth.logical.cluster"] = settings.logical_cluster or ""
        if settings.identity_pool is not None:
            client["bearer.auth.identity.pool.id"] = settings.identity_pool
    return client
