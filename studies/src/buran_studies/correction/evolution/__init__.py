"""The MECP paper's evolutionary search for corrections of analytical models: the cases 1 to 4 of ``buran correct``."""
