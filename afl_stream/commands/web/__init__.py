"""Commands that serve HTTP: the dashboard and the gateway."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES: tuple[str, ...] = ()
