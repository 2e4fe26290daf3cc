"""Random ATen graphs, run as they are and after the passes; ``python -m tests.fuzz --help``."""
