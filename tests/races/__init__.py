"""Races: what happens when two do the same thing at one moment, and neither is asked to wait politely."""
