"""The measurement table, call path x metric x point x repetition, and the formats it travels in."""
