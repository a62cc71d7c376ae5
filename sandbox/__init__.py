"""An Anthropic- and Reducto-compatible server on this machine, which answers by rules from the text it is sent.

It stands in for the real API in tests and demonstrations and shares no code with the code it tests. Its answers show
that the plumbing works; they say nothing about the quality of a model.
"""

from sandbox.server import Background, Server, running

__all__ = ["Background", "Server", "running"]
