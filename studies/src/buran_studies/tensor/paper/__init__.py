"""The CPR paper's model as published: the preset ``paper`` of `buran.tensor.CPRegressor`."""
