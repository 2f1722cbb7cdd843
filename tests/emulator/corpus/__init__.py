"""Kernels and their expected results: `<theme>.hip` holds kernels, `<theme>.py` a case for each of them."""
