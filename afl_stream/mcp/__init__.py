"""Tools and resources of a deployment for language models, over the Model Context Protocol.

It stands on the commands: each tool does what a command does, with typed arguments and structured results.
"""
