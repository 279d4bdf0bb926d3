"""The engine that runs compiled AFL programs."""
