"""Tests that kill a process in the middle of its work and look at what the next one makes of it."""
