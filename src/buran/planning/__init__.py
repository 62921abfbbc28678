"""Strategies that choose the next measurement points."""
