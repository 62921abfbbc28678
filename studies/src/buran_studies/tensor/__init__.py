"""The study `tensor`: CP tensor completion and its rivals."""
