"""No secret is left in what is shown of a url, a text or a setting."""

from __future__ import annotations

import pytest

from afl.core.text.masking import (
    MASK,
    Secrets,
    is_secret,
    is_well_formed,
    masked_text,
    may_be_secret,
    secrets_of_environment,
    secrets_of_url,
    shown_url,
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mongodb://host/db", "mongodb://host/db"),
        ("mongodb://kim:pw@a:1,b:2/db", "mongodb://a:1,b:2/db"),
        ("mongodb://kim:p/w@host/db", "mongodb://host/db"),
        ("mongodb://kim:p?w@host/db", "mongodb://host/db"),
        ("mongodb://kim:p#w@host/db", "mongodb://host/db"),
        ("mongodb://kim:p@w:/?#@host/db", "mongodb://host/db"),
        ("mongodb://kim@host/db", "mongodb://host/db"),
        ("mongodb://host/db?authMechanismProperties=AWS_SESSION_TOKEN:pw", "mongodb://host/db"),
        ("mongodb://kim:pw", f"mongodb://kim:{MASK}"),
        ("https://[::1]:4318/v1#pw", "https://[::1]:4318/v1"),
        ("kim:pw@host:9092", "host:9092"),
        ("host:9092,other:9092", "host:9092,other:9092"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_who_asks_and_without_options(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize("password", ["hunter22", "p/a?ss#w@o:rd", "%41bcd", "a b c d e"])
def test_the_password_of_a_url_is_masked_wherever_it_stands(password: str) -> None:
    secrets = Secrets(secrets_of_url(f"mongodb://kim:{password}@host/db"))

    assert password not in secrets.masked(f"bad database name {password}, or 'x{password}y'")


def test_what_a_parser_leaves_of_a_url_that_is_not_escaped_is_masked_too() -> None:
    secrets = Secrets(secrets_of_url("mongodb://kim:first/second?third@host/db"))

    assert secrets.masked("Bad database name 'second?third'; port 'first'") == (
        f"Bad database name '{MASK}?{MASK}'; port '{MASK}'"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at mongodb://kim:p/w?x@host: refused", f"at mongodb://{MASK}@host: refused"),
        ("at mongodb:/kim:pw@host", f"at mongodb:/{MASK}@host"),
        ("https://a/b and mail kim@b.c", "https://a/b and mail kim@b.c"),
        ("?authMechanismProperties=AWS_SESSION_TOKEN:pw&x=1", f"?authMechanismProperties={MASK}&x=1"),
        ("sasl.password=pw, linger.ms=5", f"sasl.password={MASK}, linger.ms=5"),
        ("AFL_MONGODB_PASSWORD=pw", f"AFL_MONGODB_PASSWORD={MASK}"),
        ("?authMechanismProperties=A:b,AWS_SESSION_TOKEN:pw&x=1", f"?authMechanismProperties={MASK}&x=1"),
        ("AWS_SESSION_TOKEN:pw", f"AWS_SESSION_TOKEN:{MASK}"),
        ("at mongodb://kim:p w x@host: refused", f"at mongodb://{MASK}@host: refused"),
        ("at mongodb://kim:p w@x@host/db by lee@b.c", f"at mongodb://{MASK}@host/db by lee@b.c"),
        ("https://h/p?token=pw&a=b", f"https://h/p?token={MASK}&a=b"),
        ("sasl.password=p,w;x, linger.ms=5", f"sasl.password={MASK}, linger.ms=5"),
        ("sasl.password = pw", f"sasl.password = {MASK}"),
        ("AFL_KAFKA_SASL_PASSWORD = pw", f"AFL_KAFKA_SASL_PASSWORD = {MASK}"),
        ("f(password=pw) failed", f"f(password={MASK}) failed"),
        ("api_key: pw", f"api_key: {MASK}"),
        ("password: pw, user: kim", f"password: {MASK}, user: kim"),
        ("Password: pw", f"Password: {MASK}"),
        ("accessToken: pw", f"accessToken: {MASK}"),
        ("X-Api-Key: pw", f"X-Api-Key: {MASK}"),
        ("Authorization: Bearer pw", f"Authorization: {MASK}"),
        ("{'Authorization': 'Bearer pw', 'a': 'b'}", f"{{'Authorization': '{MASK}', 'a': 'b'}}"),
        ("[(b'authorization', b'Bearer 01234567')]", f"[(b'authorization', b'Bearer {MASK}')]"),
        ("tool --password pw --user kim", f"tool --password {MASK} --user kim"),
        ("tool --password=pw --user kim", f"tool --password={MASK} --user kim"),
        ("['tool', '--password', 'p w', '-v']", f"['tool', '--password', '{MASK}', '-v']"),
        ('{"password": "p\\"w", "user": "kim"}', f'{{"password": "{MASK}", "user": "kim"}}'),
        ('{"password":12345}', f'{{"password":{MASK}}}'),
        ('"{\\"password\\": \\"pw\\", \\"a\\": 1}"', f'"{{\\"password\\": \\"{MASK}\\", \\"a\\": 1}}"'),
        ("{'password': b'pw'}", f"{{'password': b'{MASK}'}}"),
        ('{"password": "cut in the mid', f'{{"password": "{MASK}'),
        (
            'LoginModule required username="kim" password="p w";',
            f'LoginModule required username="kim" password="{MASK}";',
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\npw\n-----END RSA PRIVATE KEY-----.",
            f"-----BEGIN RSA PRIVATE KEY-----{MASK}-----END RSA PRIVATE KEY-----.",
        ),
    ],
)
def test_a_text_loses_the_persons_of_urls_and_the_options_that_are_secret_by_name(text: str, shown: str) -> None:
    assert masked_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "(a = b, x == y, key=value)",
        "nothing of that",
        "facet Login(user: String, password: String = null) => (token: [String])",
        "event facet Login(password: Credentials, secret: [shop.Token]) => (token: shop.Token)",
        "    password: String",
        "  token = IssueToken(password = $.password)",
        "Login(password=$.password)",
        "shop.Password: 3 events",
        "facet Password: 3 events",
        "auth.CheckPassword: Timeout: no answer",
        "topic afl.events.shop.Password, partition 3",
        "secrets.afl:3:5: error",
        "/etc/passwd: permission denied",
        "Unexpected token: }",
        """continue x:1 --result '{"token": <String>, "password": <shop.Receipt>}'""",
        "the setting answers.token_secret is '********', wanted a text",
        "afl-stream.toml: answers.token_secret: found '********', expected a string",
        "environment AFL_KAFKA_SASL_PASSWORD: kafka.sasl.password: found 7, expected a string",
        "max_tokens: 4096, token_key_id=2",
        "bearer of bad news",
        "http://host:8080 refused by kim@b.c",
        "https://a/b and mail kim@b.c",
    ],
)
def test_words_that_are_no_secrets_are_shown(text: str) -> None:
    assert masked_text(text) == text


def test_secrets_are_masked_longest_first_and_in_the_forms_in_which_errors_quote_them() -> None:
    secrets = Secrets(["abcd", "abcdef\n", "tab\tbed"])

    assert secrets.masked("abcdef abcd b'abcdef\\n' 'tab\\tbed'") == f"{MASK} {MASK} b'{MASK}' '{MASK}'"


def test_what_is_no_use_as_a_secret_is_not_masked() -> None:
    assert Secrets(["", "abc", "true", "False", " \n "]).masked("abc true False  x") == "abc true False  x"


@pytest.mark.parametrize(
    ("url", "is_right"),
    [
        ("mongodb://kim:p%2Fw@host:27017/db?x=y", True),
        ("mongodb://a:1,b:2", True),
        ("http://[::1]:80", True),
        ("mongodb://kim:p/w@host", False),
        ("mongodb://kim:p:w@host", False),
        ("mongodb://kim:pw", False),
    ],
)
def test_a_url_that_its_parser_would_take_apart_wrongly_is_known(url: str, is_right: bool) -> None:
    assert is_well_formed(url) is is_right


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ANTHROPIC_API_KEY", "api-key", "token_secret", "Authorization", "OTEL_EXPORTER_OTLP_HEADERS",
     "authMechanismProperties", "tlsCertificateKeyFilePassword", "GITHUB_TOKEN", "aws.token"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["token_key_id", "client.id", "max_tokens", "sasl.username", "key", "monkey"])
def test_names_of_other_things_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret(name)


def test_values_that_cannot_be_secrets_may_be_shown_under_any_name() -> None:
    assert [may_be_secret(value) for value in ("hush", ["x"], 12345)] == [True, True, True]
    assert [may_be_secret(value) for value in (None, True, 5, "abc")] == [False] * 4


def test_the_environments_secrets_are_its_variables_with_secret_names_and_its_urls() -> None:
    secrets = secrets_of_environment({
        "ANTHROPIC_API_KEY": "sk-ant-1\n", "AFL_STORE_URL": "mongodb://kim:hush5@host/db", "HOME": "/home/kim",
        "PASSWORD": "no",
    })  # fmt: skip

    assert secrets.masked("sk-ant-1 hush5 /home/kim no") == f"{MASK} {MASK} /home/kim no"


def test_a_text_made_to_keep_the_masking_busy_takes_no_longer_than_others() -> None:
    hostile = "a@" + "://x" * 250_000

    assert masked_text(hostile) == hostile
    assert masked_text(f"{hostile}@") == f"a@://{MASK}@"
    assert masked_text("a-" * 500_000 + "=").startswith("a-a-")


@pytest.mark.parametrize(
    "piece",
    ["password: ", 'password="',
     '"password\\":\\""', "://a:b ", "@://a:b c", "--password ", "facet password: ", "bearer ",
     "password=,a", "-----BEGIN PRIVATE KEY-----", "passw.", "password=)"],
)  # fmt: skip
def test_a_text_made_of_beginnings_of_secrets_takes_time_that_grows_with_its_length(piece: str) -> None:
    assert len(masked_text(piece * 4_000)) > 0
    assert len(masked_text(f'password="{chr(92) * 200_000}')) < 20
