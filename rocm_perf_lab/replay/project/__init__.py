"""Editable projects made from captures: source or assembly, kernel description, Makefile."""
