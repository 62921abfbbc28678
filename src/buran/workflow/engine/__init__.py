"""How the workflow engine is driven: one controller at a time, its jobs, its end."""
