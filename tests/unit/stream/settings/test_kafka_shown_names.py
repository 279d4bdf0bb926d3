"""The names whose values `afl-stream config` shows are librdkafka's own, and no secrets."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from afl.core.text.masking import MASK, is_secret
from afl_stream.settings.kafka_passthrough import shown
from afl_stream.settings.kafka_shown_names import SHOWN_NAMES


def is_known(name: str) -> bool:
    """Whether librdkafka has a setting of this name: it complains about the value, or not at all."""
    try:
        Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, name: "1"})
    except KafkaException as error:
        return "No such configuration property" not in error.args[0].str()
    except (TypeError, ValueError):
        return True
    return True


@pytest.mark.long
def test_every_name_is_one_of_librdkafka() -> None:
    assert {name for name in SHOWN_NAMES if not is_known(name)} == set()


def test_no_secret_is_among_them() -> None:
    assert [name for name in SHOWN_NAMES if is_secret(name)] == []


@pytest.mark.parametrize("name", ["sasl.pasword", "sasl.passwort", "ssl.kye.pem", "sasl.token", "psw"])
def test_what_stands_under_a_name_that_there_is_not_is_masked(name: str) -> None:
    assert shown({name: "hush-hush"}) == {name: MASK}
