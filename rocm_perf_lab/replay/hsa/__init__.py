"""Replay on the HSA runtime, over ctypes."""
