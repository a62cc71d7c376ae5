"""Answers by rules: the schema of a request filled from the labels and tables of its document."""
