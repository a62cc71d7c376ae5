"""What the project is compared with, each a program of its own that runs in the environment of ``make bench-setup``.

They import nothing of the project. Each prints one line of JSON, which :mod:`benchmarks.peer` reads.
"""
