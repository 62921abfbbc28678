"""The study `priors`: what noise-resilient priors save, and how much noise they bear."""
