"""Differences between the architectures that the emulator executes."""
