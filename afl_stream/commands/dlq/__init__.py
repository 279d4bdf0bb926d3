"""Commands about dead letters: list them, look at one, replay them, drop them."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("choosing", "of_run", "showing")
