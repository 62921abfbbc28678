"""Performance model normal form: the search for hypotheses, their regression and quality."""

from buran.modeling.pmnf.model import Model, Quality
from buran.modeling.pmnf.model_set import ModelSet, read_models, write_models
from buran.modeling.pmnf.search import SearchOptions
from buran.modeling.pmnf.text import format_function, growth_class

__all__ = [
    "Model",
    "ModelSet",
    "Quality",
    "SearchOptions",
    "format_function",
    "growth_class",
    "read_models",
    "write_models",
]
