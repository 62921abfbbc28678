"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from buran.modeling.tensor import CPRegressor

# Errors are those of the product, which say what to do; scikit-learn asks for other words or another class.
PRODUCT = "errors are UsageError"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", [pytest.param("default", marks=pytest.mark.thorough), "published"])
def test_scikit_learn_checks(preset):
    model = CPRegressor(preset, outside="clamp", rank=1, cells=4, ridge=1e-3)
    if preset == "default":
        model.set_params(trees=5, members=2)
    done = check_estimator(model, on_fail=None, on_skip=None)
    failed = {each["check_name"]: repr(each["exception"]) for each in done if each["status"] == "failed"}
    assert not failed
