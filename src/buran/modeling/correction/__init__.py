"""Correction of analytical models: a base model with its error corrected by terms, a process or a program."""

from buran.modeling.correction.base import BaseModel, Constant, Parameter, Variable, bundled, load_base
from buran.modeling.correction.correct import correct
from buran.modeling.correction.corrected import KIND, SCHEMA, Corrected, Prediction, load_corrected, write_corrected

__all__ = [
    "KIND",
    "SCHEMA",
    "BaseModel",
    "Constant",
    "Corrected",
    "Parameter",
    "Prediction",
    "Variable",
    "bundled",
    "correct",
    "load_base",
    "load_corrected",
    "write_corrected",
]
