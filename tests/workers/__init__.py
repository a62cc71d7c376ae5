"""Tests of the workers: whole passes over document sets, against the sandbox, on both databases."""
