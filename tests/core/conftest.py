"""One hypothesis profile for this folder: small, without deadlines, without a folder of found examples."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("core", max_examples=40, deadline=None, database=None)
settings.load_profile("core")
