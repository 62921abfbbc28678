"""A fitted model and its file: what predicts, and the parameters it was measured over.

Files have arrays in npz, the rest as JSON inside it; no pickle, so that reading one runs no code.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.budget import check_memory
from buran.errors import BuranError, FormatError
from buran.files import write_bytes
from buran.modeling.tensor.axes import Array, Arrays, Axis, Unseen, encode, refuse, too_far
from buran.modeling.tensor.blend import Blend, Trees
from buran.modeling.tensor.growth import Extrapolation, Monomials, StraightLines, doublings
from buran.modeling.tensor.published.cells import TensorMode
from buran.modeling.tensor.published.model import Choice, Grown, Hinges, PublishedModel
from buran.modeling.tensor.smooth import Basis, CPPart, PartOptions

_LARGEST_LOG = 700.0  # the exponential of more overflows


@dataclass(frozen=True, eq=False)
class TensorModel:
    """A model of run time.

    Attributes
    ----------
    axes
        The parameters.
    free
        Columns of the parameters that may leave the measured range.
    inner
        Predicts inside it; that of the published method also outside.
    growth
        What happens outside, for the default preset.
    observations
        Number of them.
    """

    axes: tuple[Axis, ...]
    free: tuple[int, ...]
    inner: Blend | PublishedModel
    growth: Extrapolation | None
    observations: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(axis.name for axis in self.axes)

    def predict(
        self,
        columns: Sequence[NDArray[Any]],
        outside: Literal["error", "clamp", "nan"] = "error",
        unseen: Unseen = "error",
    ) -> tuple[Array, Array]:
        """Return times, and the standard deviations of their logarithms in the ensemble, both of shape (point,)."""
        points = encode(columns, self.axes, unseen)
        far = too_far(points, self.axes, self.free)
        if outside == "error":
            refuse(points, self.axes, far)
        low, high = np.array([axis.low for axis in self.axes]), np.array([axis.high for axis in self.axes])
        points = np.where(far, np.clip(points, low, high), points)
        rise = np.zeros(len(points))
        if self.growth is not None:
            points, rise = self.growth.add(points, self.axes)
        logs, spread = self.inner.predict_log(points)
        logs = np.clip(logs + rise, -_LARGEST_LOG, _LARGEST_LOG)
        return np.where(far.any(axis=1), np.nan, np.exp(logs)) if outside == "nan" else np.exp(logs), spread

    def error_quantile(self, level: float) -> float:
        """Return the absolute error of the logarithm that a share of measurements inside the range stays below."""
        quantiles = self.inner.residuals
        return float(np.interp(level, np.linspace(0, 1, len(quantiles)), quantiles))

    def error(self, columns: Sequence[NDArray[Any]], level: float, unseen: Unseen = "error") -> Array:
        """Return what the absolute error of the logarithm stays below for a share of new measurements, shape (point,).

        Inside the measured range that is known from observations that were left out of the fit, beyond it from the
        largest ones, predicted from smaller ones; NaN where neither could be tried.
        """
        points = encode(columns, self.axes, unseen)
        inside = self.error_quantile(level)
        if self.growth is None:
            return np.where(doublings(points, self.axes, self.free) > 0, np.nan, inside)
        return np.maximum(inside, self.growth.error(level, points, self.axes))


FORMAT = "buran-tensor-model"
VERSION = 2
_OWN = (TensorModel, Axis, Blend, Basis, CPPart, PartOptions, Trees, Extrapolation, Monomials, StraightLines)
_OF_PAPER = (PublishedModel, TensorMode, Choice, Grown, Hinges)
_CLASSES = {cls.__name__: cls for cls in (*_OWN, *_OF_PAPER)}
_AGAIN = "write one with buran model --kind cpr INPUT -o MODEL.npz"
_Parts = dict[str, list[np.ndarray[Any, Any]]]


def save_model(path: Path, model: TensorModel, notes: Mapping[str, str] | None = None) -> None:
    """Write a model.

    Parameters
    ----------
    notes
        Texts to keep with it, such as the metric and its unit.
    """
    write_bytes(path, to_bytes(model, notes))


def to_bytes(model: TensorModel, notes: Mapping[str, str] | None = None) -> bytes:
    """Return the content of a model file: one long array of each type, and JSON that says what is where."""
    parts: _Parts = {}
    header = {"format": FORMAT, "version": VERSION, "model": _put(model, parts), "notes": dict(notes or {})}
    arrays: Arrays = {name: np.concatenate(flat) for name, flat in parts.items()}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    arrays["header"] = np.frombuffer(text, dtype=np.uint8)
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return out.getvalue()


def _put(value: Any, parts: _Parts) -> Any:
    """Return a value as JSON; elements of arrays go to `parts`, by their type, and JSON has where they begin."""
    if is_dataclass(value):
        content = {field.name: _put(getattr(value, field.name), parts) for field in fields(value)}
        return {"class": type(value).__name__, **content}
    if isinstance(value, np.ndarray):
        flat = parts.setdefault(value.dtype.name, [])
        begin = sum(map(len, flat))
        flat.append(value.ravel())
        return {"array": value.dtype.name, "begin": begin, "shape": value.shape}
    return [_put(each, parts) for each in value] if isinstance(value, list | tuple) else value


def load_model(path: Path) -> tuple[TensorModel, dict[str, str]]:
    """Read a model and the texts that were kept with it.

    Raises
    ------
    FormatError
        The file is missing, damaged, no model, or of another version.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            check_memory(sum(member.file_size for member in file.zip.infolist()), path.stat().st_size, path)
            arrays: Arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        if header["version"] != VERSION:
            newer = header["version"] > VERSION
            raise FormatError(
                f"a model file is {'newer' if newer else 'older'} than this program",
                where=path,
                why=f"version {header['version']}; version {VERSION} is read",
                hint="use the Buran that wrote it" if newer else _AGAIN,
            )
        model = _get(header["model"], arrays)
        if not isinstance(model, TensorModel):
            raise ValueError("it has no model")
        return model, dict(header["notes"])
    except OSError as error:
        why = error.strerror or str(error)
        hint = "name a file that buran model or buran run wrote"
        raise FormatError("cannot read a model file", where=path, why=why, hint=hint) from error
    except BuranError:
        raise
    except Exception as error:  # zipfile, zlib, numpy's headers and JSON meet arbitrary bytes with any of theirs
        why = f"{type(error).__name__}: {error}" if zipfile.is_zipfile(path) else "it does not begin as one"
        raise FormatError("a file is no tensor model", where=path, why=why, hint=_AGAIN) from error


def _get(value: Any, arrays: Arrays) -> Any:
    """Return what `_put` turned into JSON."""
    if isinstance(value, list):
        return tuple(_get(each, arrays) for each in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        size = int(np.prod(value["shape"]))
        return arrays[value["array"]][value["begin"] : value["begin"] + size].reshape(value["shape"])
    content = {name: _get(each, arrays) for name, each in value.items() if name != "class"}
    return _CLASSES[value["class"]](**content)
