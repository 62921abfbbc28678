"""Choosing what to instrument: refinement from models, and Score-P filter files."""

from buran.instrument.filter_file import Filter, Rule, format_filter, initial_filter, only, parse, read_filter
from buran.instrument.refine import Refinement, Wishes, refine

__all__ = [
    "Filter",
    "Refinement",
    "Rule",
    "Wishes",
    "format_filter",
    "initial_filter",
    "only",
    "parse",
    "read_filter",
    "refine",
]
