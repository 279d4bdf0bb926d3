"""The command `agent probe`: an agent in any language, asked and judged."""
