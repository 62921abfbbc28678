"""Evaluations: what Buran's methods are worth, measured against their rivals and against the literature.

A study cuts its work into shards; each shard's result is a JSON file that is written once, so that an evaluation
that was interrupted goes on where it stopped, in this process or as a workflow on a cluster.
"""
