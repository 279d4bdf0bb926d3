"""The evaluator and the object model of an execution, in front of the engine."""
