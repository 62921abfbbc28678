"""What runs print: conditions that it must meet, and figures of merit, which are modelled."""
