"""Strong components and reachability, against their definitions."""

from hypothesis import given
from hypothesis import strategies as st

from afl_stream.pubsub.model.cycles import reached_from, strong_components

GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.dictionaries(
        st.integers(0, count - 1), st.lists(st.integers(0, count - 1), max_size=4), max_size=count
    ).map(lambda ways: {vertex: ways.get(vertex, []) for vertex in range(count)})
)


@given(GRAPHS)
def test_two_vertices_share_a_component_when_each_reaches_the_other(ways: dict[int, list[int]]) -> None:
    components = strong_components(ways)
    home = {vertex: number for number, component in enumerate(components) for vertex in component}

    assert sorted(vertex for component in components for vertex in component) == sorted(ways)
    for one in ways:
        for other in ways:
            is_round = other in reached_from([one], ways) and one in reached_from([other], ways)
            assert (home[one] == home[other]) is is_round


@given(GRAPHS)
def test_a_component_comes_before_those_that_lead_to_it(ways: dict[int, list[int]]) -> None:
    home = {vertex: number for number, component in enumerate(strong_components(ways)) for vertex in component}

    assert all(home[target] <= home[source] for source, targets in ways.items() for target in targets)
