"""The command `server`: a laptop's deployment, which the commands of other terminals use."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("dashboard", "reloading")
