"""AFL values at run time: operators, sizes, limits and text."""
