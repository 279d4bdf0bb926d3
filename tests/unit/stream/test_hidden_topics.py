"""A topic that is not listed: missing for all, or hidden from this user alone."""

from __future__ import annotations

from collections.abc import Iterable

from afl_stream.acls import TopicHidden, not_listed
from afl_stream.commands.failures import exit_code_of, message_of
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.errors import TopicMissing
from afl_stream.exit_codes import ExitCode

ROLE = "--role agent --facet shop.Charge"


class Shy:
    """An admin whose user may not see some topics."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def hidden(self, names: Iterable[str]) -> frozenset[str]:
        return self._names & frozenset(names)


def test_a_hidden_topic_is_told_with_the_acl_and_the_command_that_gives_it() -> None:
    found = not_listed(Shy("afl.control"), "afl.control", "answers", ROLE)

    assert isinstance(found, TopicHidden)
    for text in (str(found), message_of(found)):
        assert "topic afl.control is hidden from this user, and is needed for answers" in text
        assert "no ACL gives Describe on topic afl.control" in text
        assert f"afl-stream topics acls {ROLE} --principal User:NAME --apply" in text
        assert "topics apply" not in text
    assert exit_code_of(found) is ExitCode.UNAVAILABLE


def test_a_missing_topic_is_still_told_with_the_command_that_creates_it() -> None:
    for admin in (Shy("afl.control"), EmbeddedTransport().admin()):
        found = not_listed(admin, "afl.commands", "commands", ROLE)

        assert type(found) is TopicMissing
        assert "topic afl.commands does not exist" in str(found)
        assert "afl-stream topics apply" in str(found)
