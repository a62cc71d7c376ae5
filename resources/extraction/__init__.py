"""The Anthropic API: a client, a realtime call, the translation of what comes back. The only user of the SDK."""

from resources.extraction.realtime import RealtimeProvider

__all__ = ["RealtimeProvider"]
