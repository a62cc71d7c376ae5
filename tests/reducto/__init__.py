"""Parsing by a service: jobs that are submitted, looked after and fetched, against the sandbox through the real SDK."""
