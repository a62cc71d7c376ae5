"""The Anthropic API: a client, a realtime call, the translation of what comes back. The only user of the SDK.

Importing the package loads no SDK: that costs seconds, which sensors and the terminal should not pay.
"""
