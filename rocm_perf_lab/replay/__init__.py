"""Captured dispatches on disk, and their replay on the emulator and through the HSA runtime."""
