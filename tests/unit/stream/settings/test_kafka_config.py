"""The Kafka section: its own settings, and those of librdkafka that pass through it."""

import copy
from pathlib import Path

import pytest

from afl.core.text.masking import is_secret
from afl_stream.errors import ConfigError
from afl_stream.settings.config import MASK, KafkaSettings, StreamConfig, load_config
from afl_stream.settings.kafka_passthrough import shown


def kafka_of(folder: Path, text: str, environ: dict[str, str] | None = None) -> KafkaSettings:
    file = folder / "afl-stream.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ or {}).kafka


def test_its_own_settings_come_from_the_file(tmp_path: Path) -> None:
    found = kafka_of(
        tmp_path,
        """
        [kafka]
        bootstrap = "a:9092, [::1]:9093"
        group_protocol = "consumer"
        connect_timeout_s = 5
        outage_timeout_s = 60
        cluster_id = "4L6g3nShT-eMCtK--X86sw"
        """,
    )

    assert found == KafkaSettings(
        bootstrap="a:9092, [::1]:9093",
        group_protocol="consumer",
        connect_timeout_s=5,
        outage_timeout_s=60,
        cluster_id="4L6g3nShT-eMCtK--X86sw",
    )
    assert found.addresses == ("a:9092", "[::1]:9093")


def test_its_own_settings_come_from_the_environment(tmp_path: Path) -> None:
    environ = {
        "AFL_KAFKA_BOOTSTRAP": "a:1",
        "AFL_KAFKA_GROUP_PROTOCOL": "consumer",
        "AFL_KAFKA_CONNECT_TIMEOUT_S": "7",
        "AFL_KAFKA_OUTAGE_TIMEOUT_S": "70",
        "AFL_KAFKA_CLUSTER_ID": "c",
    }

    assert kafka_of(tmp_path, "[kafka]\nbootstrap = 'b:2'", environ) == KafkaSettings(
        bootstrap="a:1", group_protocol="consumer", connect_timeout_s=7, outage_timeout_s=70, cluster_id="c"
    )


def test_librdkafkas_settings_are_written_with_dots_or_in_quotes(tmp_path: Path) -> None:
    found = kafka_of(
        tmp_path,
        """
        [kafka]
        security.protocol = "SASL_SSL"
        "sasl.username" = "desk"
        socket.keepalive.enable = true
        log_level = 7
        [kafka.producer]
        linger.ms = 0
        queue.buffering.backpressure.threshold = 2.0
        [kafka.consumer]
        "check.crcs" = false
        """,
    )

    assert found.client == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "desk",
        "socket.keepalive.enable": "true",
        "log_level": "7",
    }
    assert found.producer == {"linger.ms": "0", "queue.buffering.backpressure.threshold": "2"}
    assert found.consumer == {"check.crcs": "false"}


def test_every_other_variable_of_kafka_is_a_setting_of_librdkafka(tmp_path: Path) -> None:
    found = kafka_of(
        tmp_path,
        "",
        {
            "AFL_KAFKA_SECURITY_PROTOCOL": "SSL",
            "AFL_KAFKA_CLIENT_ID": "desk",
            "AFL_KAFKA_LOG_LEVEL": "7",
            "AFL_KAFKA_PRODUCER_LINGER_MS": "3",
            "AFL_KAFKA_CONSUMER_LOG_LEVEL": "6",
            "AFL_KAFKAESQUE": "no setting",
        },
    )

    assert found.client == {"security.protocol": "SSL", "client.id": "desk", "log_level": "7"}
    assert found.producer == {"linger.ms": "3"}
    assert found.consumer == {"log_level": "6"}


def test_a_variable_wins_over_the_file_under_either_name_of_a_setting(tmp_path: Path) -> None:
    text = "[kafka]\nsasl.mechanisms = 'PLAIN'\nsasl.username = 'a'\n[kafka.producer]\nlinger.ms = 9"

    found = kafka_of(tmp_path, text, {"AFL_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256", "AFL_KAFKA_PRODUCER_LINGER_MS": "1"})

    assert found.client == {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "a"}
    assert found.producer == {"linger.ms": "1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bootstrap = 'broker'", "kafka.bootstrap: found 'broker', expected host:port"),
        ("bootstrap = 'a:1,b'", "kafka.bootstrap: found 'a:1,b', expected host:port"),
        ("bootstrap = 'a:1,'", "kafka.bootstrap: found 'a:1,', expected host:port"),
        ("bootstrap = ''", "kafka.bootstrap: found '', expected host:port"),
        ("bootstrap = 'a:0'", "kafka.bootstrap: found 'a:0'"),
        ("bootstrap = 'a:65536'", "kafka.bootstrap: found 'a:65536'"),
        ("bootstrap = 'SSL://a:1'", "kafka.bootstrap: .* the protocol goes into security.protocol"),
        ("bootstrap = 9092", "kafka.bootstrap: found 9092, expected a string"),
        ("group_protocol = 'share'", "kafka.group_protocol: found 'share', expected one of classic, consumer"),
        ("connect_timeout_s = 0", "kafka.connect_timeout_s: found 0, expected 1 or more"),
        ("outage_timeout_s = '1'", "kafka.outage_timeout_s: found '1', expected a whole number"),
        ("cluster_id = ''", "kafka.cluster_id: found '', expected the id of a cluster"),
        ("bootstap = 'a:1'", r"kafka.bootstap: found 'a:1': no such key; did you mean bootstrap\?"),
        ("group.protocol = 'consumer'", r"kafka.group.protocol: .* did you mean group_protocol\?"),
        ("linger_ms = 5", "kafka.linger_ms: found 5, expected one of bootstrap, "),
        ("producer = 5", "kafka.producer: found 5, expected a librdkafka setting's name behind it"),
        ("debug = ['all']", r"kafka.debug: found \['all'\], expected a string, a number, true or false"),
        ("'retry.backoff.ms' = nan", "kafka.retry.backoff.ms: found nan, expected a string, a number"),
        ("'debug.x' = 1\ndebug.x = 2", "kafka.debug.x: found 2, expected the setting once"),
        ("sasl.password = ['hush']", r"kafka.sasl.password: found '\*+', expected a string, a number"),
    ],
)
def test_what_cannot_be_used_is_named_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"afl-stream\.toml: {said}") as refused:
        kafka_of(tmp_path, f"[kafka]\n{text}")
    assert "hush" not in str(refused.value)


def test_kafka_without_an_address_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environment AFL_TRANSPORT: .*kafka\.bootstrap .*AFL_KAFKA_BOOTSTRAP"):
        kafka_of(tmp_path, "", {"AFL_TRANSPORT": "kafka"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("acks", "1", "all replicas in sync"),
        ("request.required.acks", "1", "all replicas in sync"),
        ("allow.auto.create.topics", "true", "topics apply"),
        ("auto.commit.enable", "true", "when the work on its record is finished"),
        ("auto.offset.reset", "latest", "stored and committed positions"),
        ("bootstrap.servers", "a:1", "kafka.bootstrap in its place"),
        ("delivery.report.only.error", "true", "acknowledgement is waited for"),
        ("enable.auto.commit", "true", "when the work on its record is finished"),
        ("enable.auto.offset.store", "true", "when the work on its record is finished"),
        ("enable.idempotence", "false", "a retry neither doubles records"),
        ("enable.partition.eof", "true", "found by its offsets"),
        ("error_cb", "print", "a callback is code"),
        ("group.id", "mine", "evaluator.group or agent.group in its place"),
        ("group.remote.assignor", "uniform", "evaluators and agents"),
        ("max.in.flight", "6", "1 to 5: with more"),
        ("max.in.flight.requests.per.connection", "many", "1 to 5"),
        ("metadata.broker.list", "a:1", "kafka.bootstrap in its place"),
        ("offset.store.method", "file", "stored and committed positions"),
        ("partition.assignment.strategy", "roundrobin", "evaluators and agents"),
        ("partitioner", "random", "murmur2"),
        ("ssl.certificate.verify_cb", "print", "a callback is code"),
        ("test.mock.num.brokers", "3", "keeps no records"),
        ("transactional.id", "me", "outbox"),
    ],
)
def test_settings_that_delivery_relies_on_are_refused_with_the_reason(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    given = {name: value}
    for start, settings in (
        ("", KafkaSettings(client=given)),
        ("producer.", KafkaSettings(producer=given)),
        ("consumer.", KafkaSettings(consumer=given)),
    ):
        with pytest.raises(ConfigError, match=rf"afl-stream\.toml: kafka\.{start}{name}: found '{value}', .*{said}"):
            kafka_of(tmp_path, f"[kafka]\n'{start}{name}' = '{value}'")
        with pytest.raises(ConfigError, match=f"kafka.{start}{name}: .*{said}"):
            StreamConfig(kafka=settings)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("AFL_KAFKA_ACKS", "kafka.acks"),
        ("AFL_KAFKA_CONSUMER_GROUP_ID", "kafka.consumer.group.id"),
        ("AFL_KAFKA_ERROR_CB", "kafka.error.cb"),
        ("AFL_KAFKA_PRODUCER", "kafka.producer"),
    ],
)
def test_a_variable_that_may_not_pass_through_is_named(tmp_path: Path, variable: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"environment {variable}: {key}: "):
        kafka_of(tmp_path, "", {variable: "1"})


def test_up_to_five_requests_may_be_in_flight() -> None:
    StreamConfig(kafka=KafkaSettings(producer={"max.in.flight": "5"}))


@pytest.mark.parametrize("name", ["session.timeout.ms", "heartbeat.interval.ms"])
def test_what_the_broker_decides_cannot_be_set_with_the_consumer_protocol(tmp_path: Path, name: str) -> None:
    text = f"[kafka.consumer]\n{name} = 6000"

    assert kafka_of(tmp_path, text).consumer == {name: "6000"}
    with pytest.raises(ConfigError, match=rf"afl-stream\.toml: kafka\.consumer\.{name}: .* the broker decides"):
        kafka_of(tmp_path, text, {"AFL_KAFKA_GROUP_PROTOCOL": "consumer"})


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "ssl_key",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
    ],
)
def test_librdkafkas_secrets_are_secrets(name: str) -> None:
    assert is_secret(name)
    assert shown({name: "hush"}) == {name: MASK}


@pytest.mark.parametrize(
    "name",
    [
        "security.protocol",
        "sasl.username",
        "sasl.mechanisms",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.private.key.file",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.keystore.location",
        "linger.ms",
    ],
)
def test_what_an_operator_has_to_see_is_shown(name: str) -> None:
    assert shown({name: "seen"}) == {name: "seen"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.certificate.pem", "-----BEGIN CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----\nhush"),
        ("sasl.oauthbearer.token.endpoint.url", "https://desk:hush@login.example.com/token"),
    ],
)
def test_a_secret_inside_another_setting_is_masked_too(name: str, value: str) -> None:
    assert shown({name: value}) == {name: MASK}


def test_what_passes_through_is_described_with_its_secrets_masked() -> None:
    config = StreamConfig(
        kafka=KafkaSettings(
            client={"security.protocol": "SASL_SSL", "sasl.password": "hush"},
            producer={"linger.ms": "0"},
            consumer={"ssl.key.pem": "hush"},
        )
    )

    described = config.describe()

    assert described["kafka.security.protocol"] == "SASL_SSL"
    assert described["kafka.sasl.password"] == MASK
    assert described["kafka.producer.linger.ms"] == "0"
    assert described["kafka.consumer.ssl.key.pem"] == MASK
    assert "hush" not in repr(config)
    assert "SASL_SSL" in repr(config)


def test_settings_are_values_that_nobody_can_change() -> None:
    given = {"linger.ms": "0"}
    config = StreamConfig(kafka=KafkaSettings(producer=given))
    twin = copy.deepcopy(config)
    given["linger.ms"] = "9"

    assert config.kafka.producer == {"linger.ms": "0"}
    assert not hasattr(config.kafka.producer, "__setitem__")
    assert twin == config
    assert hash(twin) == hash(config)
    assert config != StreamConfig(kafka=KafkaSettings(producer=given))
