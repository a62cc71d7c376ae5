"""The sample documents and what parsing makes of them."""
