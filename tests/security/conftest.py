"""A place for a Dagster run, and a workplace."""

from tests.dagster.conftest import furnished, place
from tests.workplace_fixtures import parser, workplace

__all__ = ["furnished", "parser", "place", "workplace"]
