"""Measurements made from known functions."""

from __future__ import annotations

import numpy as np

from buran.modeling.correction import BaseModel, Parameter, Variable

PLACES = np.array([(p, n) for p in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0) for n in (100.0, 400.0, 1600.0)])


def base_model(**changes: object) -> BaseModel:
    """A latency and a transfer time, both divided by nothing."""
    settings: dict[str, object] = {
        "expression": "steps * (latency + transfer)",
        "parameters": {
            "alpha": Parameter(1e-5, 1e-7, 1e-3, log=True),
            "beta": Parameter(1e-8, 1e-10, 1e-6, log=True),
        },
        "variables": {"p": Variable(scale=True), "n": Variable()},
        "components": {"latency": "alpha * p", "transfer": "beta * n**2"},
        "let": {"steps": "10"},
        "name": "test",
    }
    return BaseModel(**{**settings, **changes})  # type: ignore[arg-type]


def contended(points: np.ndarray, noise: float = 0.02, seed: int = 0) -> np.ndarray:
    """Times whose transfer takes longer above 8 processes."""
    p, n = points.T
    times = 10 * (2e-5 * p + 3e-8 * n**2 * (1 + 0.8 * np.maximum(0, p / 8 - 1)))
    return times * np.exp(np.random.default_rng(seed).normal(0, noise, len(points)))


def fitting(points: np.ndarray, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Times that the base model describes."""
    p, n = points.T
    return 10 * (2e-5 * p + 3e-8 * n**2) * np.exp(np.random.default_rng(seed).normal(0, noise, len(points)))
