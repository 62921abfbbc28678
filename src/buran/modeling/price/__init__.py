"""The cost of a unit of counted work: batched regression, and what models leave over."""
