"""Model files: arrays in npz, the rest as JSON inside it; no pickle, so that reading one runs no code."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from buran.budget import check_memory
from buran.errors import BuranError, FormatError
from buran.files import write_bytes
from buran.modeling.tensor.axes import Arrays, Axis
from buran.modeling.tensor.blend import Blend
from buran.modeling.tensor.boost import Features, Trees
from buran.modeling.tensor.growth import Extrapolation, GrowthModel, Monomials, StraightLines
from buran.modeling.tensor.model import TensorModel
from buran.modeling.tensor.published.files import get_published, put_published
from buran.modeling.tensor.smooth import Basis, CPPart, PartOptions

FORMAT = "buran-tensor-model"
VERSION = 1
_NOTES = 300  # bytes for texts such as the metric and its unit


def save_model(path: Path, model: TensorModel, notes: Mapping[str, str] | None = None) -> None:
    """Write a model.

    Parameters
    ----------
    notes
        Texts to keep with it, such as the metric and its unit.
    """
    write_bytes(path, to_bytes(model, notes))


def to_bytes(model: TensorModel, notes: Mapping[str, str] | None = None) -> bytes:
    """Return the content of a model file."""
    arrays: Arrays = {}
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "axes": [axis.to_json() for axis in model.axes],
        "free": list(model.free),
        "observations": model.observations,
        "notes": dict(notes or {}),
    }
    if isinstance(model.inner, Blend):
        header["blend"] = _put_blend(model.inner, arrays)
    else:
        header["published"] = put_published(model.inner, arrays)
    if model.growth is not None:
        header["growth"] = _put_growth(model.growth, arrays)
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    arrays["header"] = np.frombuffer(text, dtype=np.uint8)
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return out.getvalue()


def fit_to_size(model: TensorModel, size_kb: float, *, trees: bool = True, members: bool = True) -> TensorModel:
    """Return the model with as many of its trees and CP parts as its file has room for.

    The last trees go first: each is grown on what those before it leave over. A model that is still too large is
    returned with a warning that says how large it is.

    Parameters
    ----------
    trees, members
        Whether trees, and parts, may go; not what the user fixed.
    """
    limit = 1000 * size_kb - _NOTES
    while isinstance(blend := model.inner, Blend) and (excess := len(to_bytes(model)) - limit) > 0:
        number, size = len(blend.trees.values), blend.trees.values.nbytes + blend.trees.bound.nbytes
        if trees and number:
            fewer = max(number - max(int(np.ceil(excess * number / size)), 1), 0)
            model = replace(model, inner=replace(blend, trees=blend.trees.first(fewer)))
        elif members and len(blend.parts) > 1:
            model = replace(model, inner=replace(blend, parts=blend.parts[:-1]))
        else:
            least = (excess + limit + _NOTES) / 1000
            warnings.warn(f"the model takes {least:.1f} kB, more than size_kb={size_kb:g}", stacklevel=3)
            break
    return model


def load_model(path: Path) -> tuple[TensorModel, dict[str, str]]:
    """Read a model and the texts that were kept with it.

    Raises
    ------
    FormatError
        The file is missing, damaged, no model, or of a newer version.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            check_memory(sum(member.file_size for member in file.zip.infolist()), path.stat().st_size, path)
            arrays: Arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        if header["version"] > VERSION:
            raise FormatError(
                "a model file is newer than this program",
                where=path,
                why=f"version {header['version']}; versions up to {VERSION} are read",
            )
        axes = tuple(Axis.from_json(axis) for axis in header["axes"])
        inner = _get_blend(header["blend"], arrays, axes) if "blend" in header else get_published(header, arrays, axes)
        growth = _get_growth(header["growth"], arrays, axes) if "growth" in header else None
        return TensorModel(axes, tuple(header["free"]), inner, growth, int(header["observations"])), dict(
            header["notes"]
        )
    except OSError as error:
        why = error.strerror or str(error)
        hint = "name a file that buran model or buran run wrote"
        raise FormatError("cannot read a model file", where=path, why=why, hint=hint) from error
    except BuranError:
        raise
    except Exception as error:  # zipfile, zlib, numpy's headers and JSON meet arbitrary bytes with any of theirs
        why = f"{type(error).__name__}: {error}" if zipfile.is_zipfile(path) else "it does not begin as one"
        hint = "write one with buran model --kind cpr INPUT -o MODEL.npz"
        raise FormatError("a file is no tensor model", where=path, why=why, hint=hint) from error


def _put_part(name: str, part: CPPart, arrays: Arrays) -> None:
    # Half precision costs less than a thousandth of a factor, far below the error of any model, and halves the file.
    arrays[f"{name}.main"] = np.concatenate(part.main).astype(np.float32)
    if part.factors:
        arrays[f"{name}.factors"] = np.concatenate(part.factors).astype(np.float16)


def _get_part(name: str, sizes: list[int], arrays: Arrays) -> CPPart:
    bounds = np.cumsum(sizes)[:-1]
    main = np.split(arrays[f"{name}.main"].astype(np.float64), bounds)
    factors = arrays.get(f"{name}.factors")
    return CPPart(main, [] if factors is None else np.split(factors.astype(np.float64), bounds))


def _put_bases(name: str, bases: tuple[Basis, ...], arrays: Arrays) -> list[int]:
    arrays[f"{name}.nodes"] = np.concatenate([basis.nodes for basis in bases])
    return [basis.size for basis in bases]


def _get_bases(name: str, sizes: list[int], arrays: Arrays, axes: tuple[Axis, ...]) -> tuple[Basis, ...]:
    parts = np.split(arrays[f"{name}.nodes"], np.cumsum(sizes)[:-1])
    return tuple(Basis(axis, nodes) for axis, nodes in zip(axes, parts, strict=True))


def _put_blend(blend: Blend, arrays: Arrays) -> dict[str, Any]:
    sizes = _put_bases("blend", blend.bases, arrays)
    for i, part in enumerate(blend.parts):
        _put_part(f"part{i}", part, arrays)
    _put_part("main", blend.main, arrays)
    arrays |= {
        "features": blend.features.weights.astype(np.int8),
        "ranges": np.stack([blend.features.low, blend.features.high]),
        "questions": np.stack([blend.trees.feature, blend.trees.bound]),
        "values": blend.trees.values,
        "residuals": blend.residuals.astype(np.float32),
    }
    if blend.features.orders:
        arrays["orders"] = np.concatenate([order for _, order in blend.features.orders]).astype(np.int16)
    return {
        "sizes": sizes,
        "centre": blend.centre,
        "spread": blend.spread,
        "share": blend.share,
        "parts": len(blend.parts),
        "ordered": [j for j, _ in blend.features.orders],
        "bins": blend.features.count,
        "options": asdict(blend.options),
    }


def _get_blend(header: dict[str, Any], arrays: Arrays, axes: tuple[Axis, ...]) -> Blend:
    sizes = header["sizes"]
    features = Features(
        arrays["features"].astype(np.float64),
        arrays["ranges"][0],
        arrays["ranges"][1],
        _get_orders(header["ordered"], arrays, axes),
        int(header["bins"]),
    )
    return Blend(
        axes,
        _get_bases("blend", sizes, arrays, axes),
        float(header["centre"]),
        float(header["spread"]),
        tuple(_get_part(f"part{i}", sizes, arrays) for i in range(header["parts"])),
        _get_part("main", sizes, arrays),
        float(header["share"]),
        features,
        Trees(arrays["questions"][0], arrays["questions"][1], arrays["values"]),
        PartOptions(**header["options"]),
        arrays["residuals"].astype(np.float64),
    )


def _get_orders(columns: list[int], arrays: Arrays, axes: tuple[Axis, ...]) -> tuple[tuple[int, Any], ...]:
    cuts = np.cumsum([len(axes[j].categories) for j in columns])
    return tuple(zip(columns, np.split(arrays["orders"].astype(np.float64), cuts[:-1]) if columns else (), strict=True))


def _put_growth(growth: Extrapolation, arrays: Arrays) -> dict[str, Any]:
    arrays["slopes"] = growth.slopes
    arrays["growth.errors"] = growth.errors.astype(np.float32)
    kinds: list[dict[str, Any]] = []
    for i, model in enumerate(growth.models):
        if isinstance(model, Monomials):
            arrays[f"growth{i}.exponents"] = model.exponents
            arrays[f"growth{i}.coefficients"] = model.coefficients
            arrays[f"growth{i}.low"] = model.low
            kinds.append({"places": list(model.columns)})
        else:
            sizes = _put_bases(f"growth{i}", model.bases, arrays)
            _put_part(f"growth{i}", model.part, arrays)
            kinds.append({"sizes": sizes, "centre": model.centre, "spread": model.spread})
    return {"free": list(growth.free), "models": kinds, "reason": growth.reason}


def _get_growth(header: dict[str, Any], arrays: Arrays, axes: tuple[Axis, ...]) -> Extrapolation:
    models: list[GrowthModel] = []
    for i, kind in enumerate(header["models"]):
        if "places" in kind:
            models.append(
                Monomials(
                    tuple(kind["places"]),
                    arrays[f"growth{i}.exponents"],
                    arrays[f"growth{i}.coefficients"],
                    arrays[f"growth{i}.low"],
                )
            )
        else:
            bases = _get_bases(f"growth{i}", kind["sizes"], arrays, axes)
            part = _get_part(f"growth{i}", kind["sizes"], arrays)
            models.append(StraightLines(bases, part, float(kind["centre"]), float(kind["spread"])))
    errors = arrays.get("growth.errors", np.zeros((0, 1))).astype(np.float64)  # not in files of earlier versions
    return Extrapolation(tuple(header["free"]), tuple(models), arrays["slopes"], header["reason"], errors)
