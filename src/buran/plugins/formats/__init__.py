"""Formats of other tools, data frames and Parquet: what Buran reads and writes for others."""
