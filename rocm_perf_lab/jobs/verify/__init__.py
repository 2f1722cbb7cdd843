"""`verify`: the checks of rewrites without timing, for described kernels and applications."""
