"""The workplace of this folder's tests."""

from tests.workplace_fixtures import parser, workplace

__all__ = ["parser", "workplace"]
