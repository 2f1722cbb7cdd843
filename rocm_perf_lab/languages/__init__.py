"""Kernel languages behind one interface: HIP, Triton and assembly."""
