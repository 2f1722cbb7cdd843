"""CRC-32 of rows with zlib."""

import zlib

import numpy as np


def sums(messages, lengths, **_):
    """CRC-32 of the first bytes of each row."""
    return np.array([zlib.crc32(row[: max(int(n), 0)].tobytes()) for row, n in zip(messages, lengths, strict=True)], np.uint32)
