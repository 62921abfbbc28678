"""Where finished builds and runs lie, who makes them now, and what they have cost."""
