"""POP efficiencies: how well runs use their cores, at measured points and at the target."""

KEY = "scaling"
