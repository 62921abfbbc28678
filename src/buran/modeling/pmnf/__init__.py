"""Performance model normal form: terms, hypothesis spaces, batched regression."""

from buran.modeling.pmnf.fit import Fit, fit_models
from buran.modeling.pmnf.model import Model, Quality
from buran.modeling.pmnf.model_set import ModelSet, read_models, write_models
from buran.modeling.pmnf.powers import HypothesisSpace, PowerLog, full_space, read_space
from buran.modeling.pmnf.search import SearchOptions
from buran.modeling.pmnf.terms import Factor, ModelFunction, Term, predict
from buran.modeling.pmnf.text import format_function, growth_class

__all__ = [
    "Factor",
    "Fit",
    "HypothesisSpace",
    "Model",
    "ModelFunction",
    "ModelSet",
    "PowerLog",
    "Quality",
    "SearchOptions",
    "Term",
    "fit_models",
    "format_function",
    "full_space",
    "growth_class",
    "predict",
    "read_models",
    "read_space",
    "write_models",
]
