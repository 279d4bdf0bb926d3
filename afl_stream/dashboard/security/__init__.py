"""Who may ask, and what: addresses, hosts, origins, tokens, roles, and the headers of every answer."""

#: The modules that other packages import.
PUBLIC_MODULES = ("access", "guard", "rates", "sessions")
