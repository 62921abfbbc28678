"""Models of run time over many parameters by completion of low-rank (CP) tensors."""

from typing import TYPE_CHECKING, Any

from buran.modeling.tensor.model import TensorModel, load_model, save_model

if TYPE_CHECKING:
    from buran.modeling.tensor.regressor import CPRegressor

__all__ = ["CPRegressor", "TensorModel", "load_model", "save_model"]


def __getattr__(name: str) -> Any:
    """Import the regressor when it is requested: scikit-learn takes a second to load."""
    if name == "CPRegressor":
        from buran.modeling.tensor.regressor import CPRegressor

        return CPRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
