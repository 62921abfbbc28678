"""Extrapolation on the published data: training below a bound, testing above it (Figure 8 of the CPR paper)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buran_studies.tensor.data import SOURCES, Sample, load
from buran_studies.tensor.rivals import RIVALS, judge

_LEVEL = 0.9


@dataclass(frozen=True)
class Setting:
    """What is left out.

    Attributes
    ----------
    places
        Of the extrapolated parameters.
    upto, beyond
        Training points have all of them at most at the one, test points at least at the other.
    """

    data: str
    places: tuple[int, ...]
    upto: float
    beyond: float


SETTINGS: Mapping[str, Setting] = {
    "gemm m < 2048": Setting("gemm", (0,), 2048, 2048),
    "gemm m < 512": Setting("gemm", (0,), 512, 2048),
    "gemm m,n,k < 1024": Setting("gemm", (0, 1, 2), 1024, 2048),
    "gemm m,n,k < 512": Setting("gemm", (0, 1, 2), 512, 2048),
    "bcast nodes <= 64": Setting("bcast", (2,), 64, 128),
    "bcast nodes <= 32": Setting("bcast", (2,), 32, 128),
    "bcast msgsize < 2^25": Setting("bcast", (0,), 2**25, 2**25),
    "bcast msgsize < 2^23": Setting("bcast", (0,), 2**23, 2**25),
}


def split(folder: Path, setting: Setting, size: int, seed: int) -> tuple[Sample, Sample]:
    """Return a training sample below the bound and everything beyond it; seed 10 is the paper's sample."""
    all_rows = load(folder, setting.data, "train")
    values = all_rows.X[:, list(setting.places)]
    below = np.flatnonzero((values <= setting.upto).all(axis=1))
    above = np.flatnonzero((values >= setting.beyond).all(axis=1))
    random = np.random.RandomState(seed)
    random.shuffle(np.arange(len(above)))
    random.shuffle(below)
    return all_rows.take(below[:size]), all_rows.take(above)


def work(folder: Path, name: str, size: int, seed: int) -> list[dict[str, Any]]:
    """Fit both presets, a rival that cannot extrapolate, and one that can.

    Of the default preset also the share of the tests that 90 % intervals hold, their median half width, as a factor,
    and the size of the file.
    """
    from buran.modeling.tensor import CPRegressor
    from buran.modeling.tensor.model import to_bytes

    setting = SETTINGS[name]
    train, test = split(folder, setting, size, seed)
    source = SOURCES[setting.data]
    rows = []
    for preset in ("published", "default"):
        start = time.process_time()
        model = CPRegressor(
            preset,
            scale=source.scale,
            names=source.names,
            extrapolate=setting.places,
            outside="clamp",
            random_state=seed,
        ).fit(train.X, train.y)
        fit_s = time.process_time() - start
        gaps = np.abs(np.log(np.maximum(model.predict(test.X), 1e-14) / test.y))
        grown = model.model_.growth
        row = {"method": preset, "error": float(gaps.mean()), "fit_s": fit_s, "tests": len(test.y)}
        if preset == "default":
            lower, upper = model.predict_interval(test.X, _LEVEL)
            row["held"] = float(np.mean((lower <= test.y) & (test.y <= upper)))
            row["factor"] = float(np.exp(np.median(np.log(upper / lower)) / 2))
            row["kb"] = len(to_bytes(model.model_)) / 1000
        rows.append({**row, "setting": "" if grown is None else grown.reason})
    for rival in ("k nearest neighbours", "Gaussian process"):
        own = judge(RIVALS[rival], train, test, source.scale, seed, every=False)
        rows.append({"method": rival, "error": own.error, "fit_s": own.fit_s, "tests": len(test.y)})
    return rows
