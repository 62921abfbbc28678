"""Performance model normal form: terms, hypothesis spaces, batched regression."""

from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.beam import Costs
from buran.modeling.pmnf.fit import Fit, fit_models
from buran.modeling.pmnf.model import Model, Quality, prediction_interval
from buran.modeling.pmnf.model_set import ModelSet, models_to_json, read_models, write_models
from buran.modeling.pmnf.powers import HypothesisSpace, PowerLog, full_space, read_space
from buran.modeling.pmnf.repetitions import Scatter, relative_weights
from buran.modeling.pmnf.search import SearchOptions
from buran.modeling.pmnf.terms import Factor, ModelFunction, Term, predict
from buran.modeling.pmnf.text import format_function, format_largest, growth_class, python_names

__all__ = [
    "Alternative",
    "Costs",
    "Factor",
    "Fit",
    "HypothesisSpace",
    "Model",
    "ModelFunction",
    "ModelSet",
    "PowerLog",
    "Quality",
    "Scatter",
    "SearchOptions",
    "Term",
    "fit_models",
    "format_function",
    "format_largest",
    "full_space",
    "growth_class",
    "models_to_json",
    "predict",
    "prediction_interval",
    "python_names",
    "read_models",
    "read_space",
    "relative_weights",
    "write_models",
]
