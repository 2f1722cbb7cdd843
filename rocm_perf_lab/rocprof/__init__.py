"""Readers and writers for the formats of AMD profilers, and counter metrics."""
