"""Surroundings that fail: a database that goes away, full and strange disks, clocks that jump, other versions."""
