"""Tests of the pure domain: no file, no database, no network, no clock."""
