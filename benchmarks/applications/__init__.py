"""Whole HIP programs, in the style of public samples, that check their own results."""
