"""The pure domain: states, causes, retry policy, fingerprints, schemas, prompts, answers, prices.

Nothing here reads a clock, a disk, a database or a network, and nothing here knows Dagster: every function is a
value in, a value out. The words are those of ``docs/glossary.md``.
"""
