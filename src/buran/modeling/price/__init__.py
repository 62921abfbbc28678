"""The cost of a unit of counted work: batched regression, the noise of a run, and what models leave over."""
