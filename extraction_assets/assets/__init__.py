"""The assets of a collection, and how the outcome of a pass is shown in the UI."""
