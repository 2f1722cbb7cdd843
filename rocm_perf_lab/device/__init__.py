"""The device protocol and its implementations: a GPU under ROCm, and the emulator."""
