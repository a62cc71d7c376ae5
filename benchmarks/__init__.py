"""Measurements: ``python -m benchmarks.<name> [--json]``. Ratios of figures of the same call, never single times."""
