"""The mask for secrets, the rules for what counts as a secret, and texts and urls shown without their secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final
from urllib.parse import unquote

from afl.core.text.patterns import lazy_pattern

MASK: Final = "********"

#: A shorter value gives little security, and masking it wherever it occurs would make texts unreadable.
MIN_SECRET_CHARS: Final = 4

#: Values that occur everywhere, and are not secret under any name.
_PLAIN_VALUES: Final = frozenset({"true", "false", "none", "null", MASK})

#: Names of settings, options of urls and headers whose values are secrets.
_SECRET_NAME: Final = lazy_pattern(
    r"passw|passphrase|secret|jaas|authorization|authmechanismproperties|otlp_headers"
    r"|(api|private|access)[._-]?key$|[._]pwd\b|(^|[._-])token$|(?-i:[a-z]Token$)|[._]key[._]pem$|^ssl[._]key$"
    r"|^sasl\.oauthbearer\.config$|^sasl\.kerberos\.kinit\.cmd$",
    re.IGNORECASE,
)
#: A private key may stand in any setting that takes PEM, and a person in any url.
_SECRET_VALUE: Final = lazy_pattern(r"PRIVATE KEY-|://\S*@")
#: A piece of a text in which a url may stand, and where the person of one begins. A slash may be missing.
_WORD: Final = lazy_pattern(r"\S{4,}")
_PERSON_BEGINS: Final = lazy_pattern(r"://|\bmongodb(?:\+srv)?:/{0,2}")
#: A password with blanks, up to its `@`: `mongodb://kim:pa ss@host`. No port: `http://host:80 asked kim@b.c`.
_BLANKS_IN_PASSWORD: Final = lazy_pattern(
    r"(://)(?!\[)[^\s/?#:@]{1,256}+:(?!\d{1,5}(?:[\s/,;:)'\"]|\Z)|\s|//)"
    r"(?:[^\n@:]|:(?!//)){1,512}+@[^\s@]{0,256}+(?:@[^\s@]{1,256}+){0,8}"
)
#: The cheap question first: may a text hold the name of a secret, or a key?
_MAY_NAME_SECRET: Final = lazy_pattern(
    r"passw|passphrase|secret|jaas|auth|key|pwd|token|config|cmd|headers|bearer", re.I
)
#: The name of a value in a text, and what stands between them: `password=`, `api_key: `, `"password": `, `--token `,
#: `'--token', `. Quantifiers are bounded, and names begin once: the time grows with the text's length.
_NAMED_VALUE: Final = lazy_pattern(
    r"(?<![\w.-])(?:(?P<option>--[A-Za-z][\w.-]{1,62})(?:['\"],\s{1,8}(?=['\"])|\s{1,8}(?!-))"
    r"|(?P<name>[\w.-]{2,64}+)\\?['\"]?(?P<mark>=|:(?!//|:)|\s{1,8}=(?=\s)|\s{1,8}:)>?\s{0,8})"
)
#: What opens a value in quotes: also of bytes, and of JSON inside of JSON.
_QUOTE: Final = lazy_pattern(r"[bru]{0,2}\\*(['\"])")
#: A quote with the backslashes before it, from the first of them, or the line's end.
_CLOSING: Final = {quote: lazy_pattern(rf"(?<!\\)\\*+{quote}|\n") for quote in ("'", '"')}
_BARE_VALUE: Final = lazy_pattern(r"[^\s'\"]+")
#: Where a value without quotes ends before its blank: the next option begins.
_NEXT_OPTION: Final = lazy_pattern(r"[&;,](?=[\w.-]{1,64}+=|\Z)")
_SCHEME: Final = lazy_pattern(r"(?:bearer|basic|digest|negotiate|token|apikey)\s{1,8}", re.I)
_BEARER: Final = lazy_pattern(r"(?<!\w)(bearer\s{1,8})(?=[^\s\d]{0,200}\d)[\w.~+/=-]{8,}", re.I)
_PRIVATE_KEY: Final = lazy_pattern(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
#: Texts behind a name that are not secrets: types and references of AFL, places for a value (`<String>`), and
#: what our errors say of a setting, which mask its value themselves: `answers.token_secret: found '********'`.
_NO_VALUE: Final = lazy_pattern(
    r"\[*(?:String|Int|Long|Double|Boolean|Json)\b|\$\.[a-z_]\w*|<[\w.\[\]]{1,64}>|\*{4,}|(?i:true|false|none|null)\b"
    r"|found (?=['\"\d\[{(]|(?:True|False|None)\b)"
)
_DECLARATION: Final = lazy_pattern(r"\b(?:facet|schema|workflow)\s[^\n]*\Z")
_SCHEMA_TYPE: Final = lazy_pattern(r"\[*(?:[a-z]\w*\.)*[A-Z][A-Za-z]*\]*(?=[\s,)}]|\Z)")
#: Before a colon these name a facet, a file or an unexpected word: `shop.Password: 3 events`, `secrets.afl:3:5`.
_FACET_NAME: Final = lazy_pattern(r"\.[A-Z][a-z]\w*\Z|(?:^|\.)[A-Z][a-z0-9]+[A-Z]\w*\Z")
_FILE_NAME: Final = lazy_pattern(r"\.(?:afl|ffl|py|json|jsonl|toml|ya?ml|md|txt|log|sqlite3?|pem|key|env)\Z")
_KIND_BEFORE: Final = lazy_pattern(
    r"(?:facet|workflow|schema|step|namespace|expected|topic|file|environment) ['\"]?\Z", re.I
)
#: The number of characters before a name that are looked at.
_BEFORE: Final = 200
#: What must be escaped where a url names a person.
_RESERVED: Final = lazy_pattern(r"[/?#\[\]@]")
#: What is said of a url in place of its parser's words.
NOT_WELL_FORMED: Final = (
    "the url is not well-formed: in user and password these must be escaped: % as %25, / as %2F, ? as %3F, # as %23, "
    "an at sign as %40, : as %3A; and a port is a number"
)
_PORT: Final = lazy_pattern(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::[0-9]{0,5})?\Z")


def is_secret(name: str, value: object = "") -> bool:
    """Say whether a setting must not be shown: because of its name, or of its value."""
    return bool(_SECRET_NAME.search(name)) or bool(_SECRET_VALUE.search(str(value)))


def may_be_secret(value: object) -> bool:
    """Say whether a value may be a secret, whatever its name is: it is then not shown under an unknown key."""
    return value is not None and not isinstance(value, bool) and len(str(value)) >= MIN_SECRET_CHARS


def shown_url(url: str) -> str:
    """Return a url without user, password and options: the text from `://` to the last `@`, and behind `?` or `#`.

    A url without a scheme is recognised too. A port that is not a number may be half a password, and is masked.
    """
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    hosts, slash, path = re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0].partition("/")
    listed = [host if _PORT.match(host) else f"{host.partition(':')[0]}:{MASK}" for host in hosts.split(",")]
    return f"{scheme}{mark}{','.join(listed)}{slash}{path}"


def masked_text(text: str) -> str:
    """Return a text of any kind with its secrets masked, as far as their form shows them.

    Masked are the users and passwords of urls, values behind the name of a secret, tokens of a header, and private
    keys. The time grows only with the text's length: a log line must not be a way to keep a process busy.
    """
    if "@" in text and ":" in text:
        text = _WORD.sub(_masked_word, text)
        if " " in text:
            text = _BLANKS_IN_PASSWORD.sub(_masked_person, text)
    if _MAY_NAME_SECRET.search(text):
        text = _PRIVATE_KEY.sub(rf"\1{MASK}\2", text)
        text = _with_values_masked(text)
        text = _BEARER.sub(rf"\g<1>{MASK}", text)
    return text


def _masked_word(found: re.Match[str]) -> str:
    """Return a word without the text from `://` to the last `@`.

    A password that is not escaped may hold `/`, `?`, `#`, `:` and `@`. The time grows only with the word's length: a
    log line must not be a way to keep a process busy.
    """
    word = found[0]
    end = word.rfind("@")
    begin = _PERSON_BEGINS.search(word, 0, end) if end > 0 else None
    return word if begin is None else f"{word[: begin.end()]}{MASK}{word[end:]}"


def _masked_person(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}{found[0][found[0].rfind('@') :]}"


def _with_values_masked(text: str) -> str:
    """Mask the values behind names of secrets."""
    shown: list[str] = []
    done = at = 0
    while (found := _NAMED_VALUE.search(text, at)) is not None:
        at = found.end()
        if _names_secret(text, found):
            begin, end = _value_at(text, at)
            if begin < end:
                shown += [text[done:begin], MASK]
                done = at = end
    return "".join([*shown, text[done:]]) if shown else text


def _names_secret(text: str, found: re.Match[str]) -> bool:
    """Say whether a name in a text announces a secret value, and not a word about AFL or about a file."""
    name, mark = found["option"] or found["name"], found["mark"]
    if not _SECRET_NAME.search(name):
        return False
    if mark is None or mark == "=":
        return True
    if mark.endswith("="):
        # Blanks around it: `token = IssueToken()` is an AFL step, `sasl.password = x` is a setting.
        return not name.isidentifier() or name.isupper() or text[found.end() : found.end() + 1] in ("'", '"')
    before = text[max(0, found.start() - _BEFORE) : found.start()]
    if before.endswith("/") or _KIND_BEFORE.search(before[-16:]) or _FACET_NAME.search(name) or _FILE_NAME.search(name):
        return False
    return not (_SCHEMA_TYPE.match(text, found.end()) and _DECLARATION.search(before))


def _value_at(text: str, at: int) -> tuple[int, int]:
    """Return where the value at this place begins and ends, without its quotes.

    A quote that is not closed may have been cut off: the value then takes the rest of the line.
    """
    quote = _QUOTE.match(text, at)
    if quote is not None:
        begin = quote.end()
        return (begin, begin) if _NO_VALUE.match(text, begin) else (begin, _end_of_quoted(text, begin, quote))
    if _NO_VALUE.match(text, at):
        return at, at
    scheme = _SCHEME.match(text, at)
    bare = _BARE_VALUE.match(text, scheme.end() if scheme is not None else at)
    if bare is None:
        return at, at
    following = _NEXT_OPTION.search(text, bare.start(), bare.end())
    end = bare.end() if following is None else following.start()
    return at, bare.start() + len(text[bare.start() : end].rstrip(",;:!?)]}>"))


def _end_of_quoted(text: str, begin: int, quote: re.Match[str]) -> int:
    """Return where a quoted value ends: at a quote with as many backslashes before it as the opening one has."""
    escapes = quote[0].count("\\")
    for found in _CLOSING[quote[1]].finditer(text, begin):
        escaping = found.end() - found.start() - 1
        if found[0] == "\n" or escaping <= escapes or (not escapes and escaping % 2 == 0):
            return found.end() - 1 - min(escaping, escapes)
    return len(text)


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
    """Say whether user, password and ports of a url are written correctly.

    A parser's message about a malformed url quotes pieces of the password, and must not be shown.
    """
    person, _, hosts = url.partition("://")[2].rpartition("@")
    listed = re.split(r"[/?#]", hosts, maxsplit=1)[0].split(",")
    return _RESERVED.search(person) is None and person.count(":") <= 1 and all(_PORT.match(host) for host in listed)


class Secrets:
    """The secrets that one process or one connection was given, masked wherever they occur in a text.

    Threads may share it.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = Lock()
        #: Longest first: a secret may be part of another.
        self._values: tuple[str, ...] = ()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Add secrets. A text shorter than MIN_SECRET_CHARS is left out."""
        given = {value for value in values if value.strip().lower() not in _PLAIN_VALUES}
        forms = {form for value in given for form in (value, value.strip()) if len(form.strip()) >= MIN_SECRET_CHARS}
        # The form in which Python quotes it in an error's text: a key with a line break at its end.
        forms |= {form.encode("unicode_escape").decode("ascii") for form in forms}
        with self._lock:
            self._values = tuple(sorted({*self._values, *forms}, key=len, reverse=True))

    def masked(self, text: str) -> str:
        """Return the text with these secrets masked, and the users of urls."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return masked_text(text)


def secrets_of_environment(environ: Mapping[str, str] | None = None) -> Secrets:
    """Return the secrets among the environment's variables: secret by their name, or as the user of a url.

    For a process that shows texts of libraries, which read variables of their own.
    """
    found: set[str] = set()
    for name, value in (os.environ if environ is None else environ).items():
        if is_secret(name.replace("_", ".")) or is_secret(name):
            found.add(value)
        if "://" in value and "@" in value:
            found |= secrets_of_url(value)
    return Secrets(found)
