"""Search spaces, samplers, and the objectives that they minimise."""
