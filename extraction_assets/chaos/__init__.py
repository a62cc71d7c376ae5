"""``extraction-assets chaos``: real workers are killed, frozen and cut off; then the books are compared.

One process (:mod:`~extraction_assets.chaos.trial`) plays the daemon: it lets sweeper and poller tick, starts the runs
that they ask for, and has everything die. The proof (:mod:`~extraction_assets.chaos.proof`) reads the ledger, the files
and the provider's own log, and nothing that the workers say of themselves.
"""
