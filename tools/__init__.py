"""Tools for people and tests; they are not installed with the packages."""
