"""Rewrites of naive kernels by transforms, compared with hand-written expert versions on the emulator."""
