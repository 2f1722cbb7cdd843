"""Errors, files, interrupts, resources, expressions and base models that every package may use."""
