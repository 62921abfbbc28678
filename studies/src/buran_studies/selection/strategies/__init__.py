"""Strategies of the literature and simple ones, which the product's own are compared with."""
