"""Tests of local parsing: formats, isolation, quality measures."""
