"""Secrets stay secret, paths stay below their roots, text stays data, servers stay on loopback."""
