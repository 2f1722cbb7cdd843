"""Search spaces: parameters, constraints, their solutions, and encodings for models."""
