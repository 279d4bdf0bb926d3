"""Claude as an agent."""
