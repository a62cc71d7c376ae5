"""The trial and its proof."""
