"""Heat step in NumPy."""


def output(input, rate, **_):
    """Five-point step inside, unchanged border."""
    result = input.copy()
    centre = input[1:-1, 1:-1]
    around = input[1:-1, :-2] + input[1:-1, 2:] + input[:-2, 1:-1] + input[2:, 1:-1]
    result[1:-1, 1:-1] = centre + rate * (around - 4 * centre)
    return result
