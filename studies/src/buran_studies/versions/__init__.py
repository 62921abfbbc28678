"""The study of versions: whether changes of a program are found by its counts at few ranks, and none invented."""
