"""Schedulers: what a cluster says of its jobs."""
