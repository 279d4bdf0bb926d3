"""What commands show of sensitive values, the keys that encrypt them, and the erasing of a run's data."""

#: The modules that other packages import.
PUBLIC_MODULES = ("shown",)
