"""What one task does: prepare a set, parse, extract. Runs without Dagster."""
