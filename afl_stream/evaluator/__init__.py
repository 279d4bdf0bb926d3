"""The evaluator as a service: the control loop and all that it writes."""
