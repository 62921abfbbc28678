"""Memory: what a program takes on another machine, by what its caches, its memory and its cores cost there."""
