"""Performance model normal form: terms, hypothesis spaces, batched regression."""

from buran.model.fit import Fit, fit_models, relative_weights
from buran.model.model import Alternative, Model, Quality, predict, prediction_interval
from buran.model.model_set import ModelSet, models_to_json, read_models, write_models
from buran.model.search import Costs, SearchOptions
from buran.model.space import SPACES, HypothesisSpace, extrap_space, full_space, named_space
from buran.model.terms import Factor, ModelFunction, Term
from buran.model.text import STYLES, format_function, growth_class, python_names

__all__ = [
    "SPACES",
    "STYLES",
    "Alternative",
    "Costs",
    "Factor",
    "Fit",
    "HypothesisSpace",
    "Model",
    "ModelFunction",
    "ModelSet",
    "Quality",
    "SearchOptions",
    "Term",
    "extrap_space",
    "fit_models",
    "format_function",
    "full_space",
    "growth_class",
    "models_to_json",
    "named_space",
    "predict",
    "prediction_interval",
    "python_names",
    "read_models",
    "relative_weights",
    "write_models",
]
