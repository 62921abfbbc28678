"""What a campaign looks like from outside: how far it is, what it costs, what its filter says. Nothing here writes."""
