"""The study `refinement`: what a filter costs to find and to use, and what it loses."""
