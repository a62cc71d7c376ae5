"""Tests of the sandbox server, over HTTP and through the real SDK."""
