"""The builder of subscription expressions, call by call."""

from __future__ import annotations

from afl_stream.pubsub.model.expressions import (
    ExpressionInvalid,
    TopicExpression,
    all_of,
    any_of,
    as_expression,
)
from afl_stream.pubsub.model.subscription_text import parse_subscription
from afl_stream.pubsub.model.topics import Topic


class SubscriptionBuilder:
    """Builds a subscription: `SubscriptionBuilder().subscribed_to(a).and_().subscribed_to(b).build()`.

    `and_` binds tighter than `or_`, as `&` does than `|`: a and_ b or_ c is `a & b | c`. A group is an expression, the
    text of one, or another builder, given to `subscribed_to`. Each call raises ExpressionInvalid when it does not fit
    in its place.
    """

    def __init__(self) -> None:
        #: Groups that are joined by OR, each of operands that are joined by AND.
        self._groups: list[list[TopicExpression]] = [[]]
        #: The operator that waits for what stands behind it.
        self._operator: str | None = None

    def subscribed_to(self, subscribed: Topic | TopicExpression | SubscriptionBuilder | str) -> SubscriptionBuilder:
        """Add a topic, an expression, its text, or what another builder has built by now."""
        if isinstance(subscribed, str):
            operand = parse_subscription(subscribed)
        else:
            operand = subscribed.build() if isinstance(subscribed, SubscriptionBuilder) else as_expression(subscribed)
        if self._groups[-1] and self._operator is None:
            raise ExpressionInvalid(
                f"subscribed_to({operand}) stands right behind subscribed_to({self._groups[-1][-1]}): "
                "and_() or or_() stands between two topics"
            )
        if self._operator == "or_()":
            self._groups.append([])
        self._groups[-1].append(operand)
        self._operator = None
        return self

    def and_(self) -> SubscriptionBuilder:
        """Join what comes next by AND."""
        return self._joined_by("and_()")

    def or_(self) -> SubscriptionBuilder:
        """Join what comes next by OR."""
        return self._joined_by("or_()")

    def build(self) -> TopicExpression:
        """Return the expression. The builder stays as it is."""
        if not self._groups[-1]:
            raise ExpressionInvalid("a subscription to nothing: subscribed_to(topic) comes first")
        if self._operator is not None:
            raise ExpressionInvalid(
                f"the subscription ends with {self._operator}: subscribed_to(topic) comes behind it"
            )
        return any_of([all_of(group) for group in self._groups])

    def _joined_by(self, operator: str) -> SubscriptionBuilder:
        if not self._groups[-1]:
            raise ExpressionInvalid(f"the subscription begins with {operator}: subscribed_to(topic) comes first")
        if self._operator is not None:
            raise ExpressionInvalid(f"{operator} stands right behind {self._operator}: a topic stands between them")
        self._operator = operator
        return self
