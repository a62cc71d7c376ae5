"""Measurements: ``python -m benchmarks.<name> [--json]``. Ratios of two figures of the same call, never single times."""
