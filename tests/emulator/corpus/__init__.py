"""Real kernels and what they must compute: `<theme>.hip` holds kernels, `<theme>.py` a case for each of them."""
