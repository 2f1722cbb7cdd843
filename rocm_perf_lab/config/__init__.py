"""Composition and validation of the whole configuration."""
