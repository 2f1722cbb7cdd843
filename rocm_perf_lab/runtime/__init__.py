"""Whole applications on the emulated GPU: the driver under AMD's own runtime, and the service that translates its kernels."""
