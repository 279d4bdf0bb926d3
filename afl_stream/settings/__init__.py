"""The settings of a deployment."""
