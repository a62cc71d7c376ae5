"""Tests of the benchmarks: they run, and keep their promises of what they print."""
