"""Secrets, kept out of what is shown: one mask, what counts as a secret, and how texts and urls are shown without."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final
from urllib.parse import unquote

MASK: Final = "********"

#: A value shorter than this is no use as a secret, and masking it wherever it stands would make texts unreadable.
MIN_SECRET_CHARS: Final = 4

#: What stands everywhere, and is no secret under whatever name.
_PLAIN_VALUES: Final = frozenset({"true", "false", "none", "null", MASK})

#: Names of settings, options of urls and headers whose values are secrets.
_SECRET_NAME: Final = re.compile(
    r"passw|passphrase|secret|jaas|authorization|authmechanismproperties|otlp_headers"
    r"|api[._-]?key$|private[._-]?key$|[._]pwd\b|(^|[._-])token$|[._]key[._]pem$|^ssl[._]key$"
    r"|^sasl\.oauthbearer\.config$|^sasl\.kerberos\.kinit\.cmd$",
    re.IGNORECASE,
)
#: A private key may stand in any setting that takes PEM, and a person in any url.
_SECRET_VALUE: Final = re.compile(r"PRIVATE KEY-|://\S*@")
#: A piece of a text in which a url may stand, and where the person of one begins. A slash may be missing.
_WORD: Final = re.compile(r"\S{4,}")
_PERSON_BEGINS: Final = re.compile(r"://|\bmongodb(?:\+srv)?:/{0,2}")
#: An option in a text: `authMechanismProperties=...`, `api_key: ...`.
_OPTION_IN_TEXT: Final = re.compile(r"(?<![\w.])([\w.-]{2,64})(=)([^\s&;,'\")]+)")
#: What must be escaped where a url names a person.
_RESERVED: Final = re.compile(r"[/?#\[\]@]")
#: What is said of a url in place of its parser's words.
NOT_WELL_FORMED: Final = (
    "the url is not well-formed: in user and password these must be escaped: % as %25, / as %2F, ? as %3F, # as %23, "
    "@ as %40, : as %3A; and a port is a number"
)
_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::[0-9]{0,5})?\Z")


def is_secret(name: str, value: object = "") -> bool:
    """Whether a setting must not be shown: by its name, or by what stands in its value."""
    return bool(_SECRET_NAME.search(name)) or bool(_SECRET_VALUE.search(str(value)))


def may_be_secret(value: object) -> bool:
    """Whether a value may be a secret whatever its name is: under an unknown key it is not shown then."""
    return value is not None and not isinstance(value, bool) and len(str(value)) >= MIN_SECRET_CHARS


def shown_url(url: str) -> str:
    """Return a url without user, password and options: what stands from `://` to the last `@`, and behind `?` or `#`.

    A url without a scheme is taken for one too. A port that is no number may be half a password, and is masked.
    """
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    hosts, slash, path = re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0].partition("/")
    listed = [host if _PORT.match(host) else f"{host.partition(':')[0]}:{MASK}" for host in hosts.split(",")]
    return f"{scheme}{mark}{','.join(listed)}{slash}{path}"


def masked_text(text: str) -> str:
    """Return a text of any kind with the urls' users and passwords masked, and the options that are secret by name."""
    if "@" in text and ":" in text:
        text = _WORD.sub(_masked_word, text)
    if "=" in text:
        text = _OPTION_IN_TEXT.sub(_masked_option, text)
    return text


def _masked_word(found: re.Match[str]) -> str:
    """A word without what stands from `://` to the last `@`: a password that is not escaped may hold `/`, `?`, `#`, `:`
    and `@`. In time that grows with the word's length: a log line must not be a way to keep a process busy."""
    word = found[0]
    end = word.rfind("@")
    begin = _PERSON_BEGINS.search(word, 0, end) if end > 0 else None
    return word if begin is None else f"{word[: begin.end()]}{MASK}{word[end:]}"


def _masked_option(found: re.Match[str]) -> str:
    name, equals, _ = found.groups()
    return f"{name}{equals}{MASK}" if _SECRET_NAME.search(name) else found[0]


def secrets_of_url(url: str) -> frozenset[str]:
    """Return the secrets of a url: password and options, whole, and in the pieces that an unescaped one leaves."""
    _, mark, rest = url.partition("://")
    person, at, hosts = (rest if mark else url).rpartition("@")
    found: set[str] = set()
    if at:
        password = person.partition(":")[2]
        found |= {person, password, *re.split(r"[/?#@:&=,]", password)}
    for option in hosts.partition("?")[2].split("&"):
        name, _, value = option.partition("=")
        if is_secret(name):
            found |= {value, *value.split(","), *(part.partition(":")[2] for part in value.split(","))}
    return frozenset(found | {unquote(secret) for secret in found}) - {""}


def is_well_formed(url: str) -> bool:
    """Whether user, password and ports of a url are written as they must be.

    What a parser says of one that is not quotes pieces of the password: it must not be shown.
    """
    person, _, hosts = url.partition("://")[2].rpartition("@")
    listed = re.split(r"[/?#]", hosts, maxsplit=1)[0].split(",")
    return _RESERVED.search(person) is None and person.count(":") <= 1 and all(_PORT.match(host) for host in listed)


class Secrets:
    """The secrets that one process or one connection was given, masked wherever they stand in a text.

    Threads may share it.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = Lock()
        #: Longest first: a secret may stand inside another.
        self._values: tuple[str, ...] = ()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Keep these in mind too. What is shorter than MIN_SECRET_CHARS is left out."""
        given = {value for value in values if value.strip().lower() not in _PLAIN_VALUES}
        forms = {form for value in given for form in (value, value.strip()) if len(form.strip()) >= MIN_SECRET_CHARS}
        # As Python quotes it in an error's text: a key with a line break at its end.
        forms |= {form.encode("unicode_escape").decode("ascii") for form in forms}
        with self._lock:
            self._values = tuple(sorted({*self._values, *forms}, key=len, reverse=True))

    def masked(self, text: str) -> str:
        """Return the text with these secrets masked, and the persons of urls."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return masked_text(text)


def secrets_of_environment(environ: Mapping[str, str] | None = None) -> Secrets:
    """Return the secrets among the environment's variables: those that are secret by name, and the persons of urls.

    For a process that shows texts of libraries, which read variables of their own.
    """
    found: set[str] = set()
    for name, value in (os.environ if environ is None else environ).items():
        if is_secret(name.replace("_", ".")) or is_secret(name):
            found.add(value)
        if "://" in value and "@" in value:
            found |= secrets_of_url(value)
    return Secrets(found)
