"""Message Batches: accepted at once, processed when they end, by the same rules and at half the price."""
