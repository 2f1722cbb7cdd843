"""Model Context Protocol: tools and documents of rocm-perf-lab for agents, over standard input and output."""
