"""Message batches, from claimed rows to files, against the sandbox."""
