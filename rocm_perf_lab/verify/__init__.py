"""Correctness of outputs: references, tolerances, trial inputs, application outputs."""
