"""Sample documents of the `servers` and `invoices` collections, and the modules that make them.

Every machine, company and figure in them is invented. `make` writes them, `catalogue` holds what they say.
"""
