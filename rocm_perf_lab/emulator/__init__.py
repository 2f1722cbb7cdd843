"""Execution of AMD GPU code objects on the CPU, with exact counters, checks and a timing model."""
