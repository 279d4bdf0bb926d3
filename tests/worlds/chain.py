"""A workflow that needs many iterations, with a question in each: one that is made to yield its turn."""

from tests.worlds.deployment import Deployment

#: Iterations in which something is asked.
LINKS = 12

_STATEMENTS = "\n".join(
    f"    n{number} = Next(n = {'$.n' if number == 0 else f'n{number - 1}.n'})\n    a{number} = Ask(n = n{number}.n)"
    for number in range(LINKS)
)
CHAIN = f"""
namespace chain {{
  event facet Ask(n: Long) => (n: Long)
  facet Next(n: Long) => (n: Long) andThen {{ yield Next(n = $.n + 1) }}
  workflow Chain(n: Long) => (last: Long) andThen {{
{_STATEMENTS}
    yield Chain(last = a{LINKS - 1}.n)
  }}
}}
"""


def start_chain(deployment: Deployment, workflow_id: str) -> str:
    return deployment.client.start("chain.Chain", {"n": 0}, workflow_id=workflow_id)
