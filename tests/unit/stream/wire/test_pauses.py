"""What is paused, by the records of the definitions topic: the last one of a key counts."""

import pytest

from afl_stream.errors import Unreadable
from afl_stream.wire.messages import Pause, pause_key
from afl_stream.wire.pauses import Pauses


def taken(*pauses: Pause) -> Pauses:
    found = Pauses()
    for pause in pauses:
        found.take(pause_key(pause.scope, pause.name), pause)
    return found


def pause(scope: str, name: str = "", *, is_paused: bool = True) -> Pause:
    return Pause(scope=scope, name=name, is_paused=is_paused, at=1)


def test_nothing_is_paused_at_first() -> None:
    pauses = Pauses()

    assert not pauses
    assert (pauses.holds_facets, pauses.holds_workflows, pauses.version) == (False, False, 0)


def test_a_facet_is_paused_and_no_other_and_no_workflow() -> None:
    pauses = taken(pause("facet", "a.F"))

    assert pauses.of_facet("a.F") is not None
    assert pauses.of_facet("a.G") is None
    assert pauses.of_workflow("a.F") is None
    assert (pauses.holds_facets, pauses.holds_workflows) == (True, False)


def test_all_pauses_facets_and_workflows() -> None:
    pauses = taken(pause("all"))

    assert pauses.of_facet("a.F") is not None
    assert pauses.of_workflow("w") is not None
    assert (pauses.holds_facets, pauses.holds_workflows) == (True, True)


def test_the_end_of_the_pause_of_all_leaves_the_others() -> None:
    pauses = taken(pause("workflow", "w"), pause("all"), pause("all", is_paused=False))

    assert pauses.of_workflow("w") is not None
    assert pauses.of_workflow("v") is None
    assert [found.name for found in pauses] == ["w"]


def test_the_last_record_of_a_key_counts_and_each_is_counted() -> None:
    pauses = taken(pause("facet", "a.F"), pause("facet", "a.F", is_paused=False))

    assert not pauses
    assert pauses.version == 2
    assert [record.is_paused for record in pauses.records.values()] == [False]


def test_a_record_under_another_key_is_refused() -> None:
    pauses = Pauses()

    with pytest.raises(Unreadable, match=r"belongs under pause:facet:a\.F"):
        pauses.take("pause:facet:a.G", pause("facet", "a.F"))
    assert not pauses


def test_a_scope_of_a_later_release_is_refused() -> None:
    pauses = Pauses()

    with pytest.raises(Unreadable, match="scope 'namespace'"):
        pauses.take("pause:namespace:a", pause("namespace", "a"))
    assert pauses.records == {}
