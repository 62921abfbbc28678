"""A corrected model as text and LaTeX, by sympy's printers."""

from __future__ import annotations

from typing import Any, Literal

import sympy

from buran.modeling.correction.corrected import Corrected
from buran.modeling.correction.terms import TermModel

Style = Literal["text", "latex"]
DIGITS = 4


def render(model: Corrected, style: Style = "text") -> str:
    """Write the model's formula, with 4 digits.

    Of an average the model with the largest weight is written, and that it is one of several. A Gaussian process has
    no formula: where one takes part, what it is added to is written, and that it is.
    """
    plain = whole = TermModel(model.theta, (), 0.0).expression(model.base)
    if model.evolved is not None:
        whole = model.evolved.expression(model.base)
    elif model.terms is not None:
        whole = model.terms.best.expression(model.base)
    is_latex = style == "latex"
    time, base = ("t", r"t_{\mathrm{base}}") if is_latex else ("time", "base")
    lines = [f"{time} = {_written(whole, style)}"]
    if model.method != "base":
        lines.append(f"{base} = {_written(plain, style)}")
    lines += [rf"\text{{{note}}}" if is_latex else note for note in _remarks(model)]
    return "\n".join(lines)


def _written(expression: Any, style: Style) -> str:
    # what all parts share stands in front of them
    shorter = sympy.factor_terms(sympy.powsimp(expression))
    rounded = shorter.xreplace({value: sympy.Float(value, DIGITS) for value in shorter.atoms(sympy.Float)})
    if style == "latex":
        return str(sympy.latex(rounded))
    return str(sympy.sstr(rounded, full_prec=False)).replace("log(", "ln(")


def _remarks(model: Corrected) -> list[str]:
    """Say what the formula does not hold."""
    out = []
    if model.terms is not None and len(model.terms.models) > 1:
        out.append(
            f"this is one of {len(model.terms.models)} formulas whose corrections are averaged, less where they "
            f"disagree, the one with the largest weight ({100 * model.terms.weights[0]:.0f} percent); as JSON all are "
            "written"
        )
    if model.process is not None:
        share = "half of its logarithm" if model.terms is not None else "its logarithm"
        out.append(f"a Gaussian process adds to {share} what the measurements leave over; it is no formula")
    return out
