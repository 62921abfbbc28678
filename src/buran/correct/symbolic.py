"""sympy, which writes formulas and multiplies units: an extra of the package, imported where one of them is needed."""

from buran.errors import ToolError

try:
    import sympy
except ImportError as error:
    raise ToolError(
        "formulas and units of analytical models need sympy",
        why="it is not installed",
        hint="pip install 'buran[correct]'",
    ) from error

__all__ = ["sympy"]
