"""Where AFL sources come from, and how several become one."""
