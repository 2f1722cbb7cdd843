"""Search spaces, and the samplers that search them."""
