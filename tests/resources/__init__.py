"""Tests of what touches disk and network: files, sources, the provider's API."""
