"""The machine-readable complexities are well formed and speak of functions that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from example_programs import COUNTED, EXAMPLES, NAMES

from buran.profiles.metrics import METRICS


def complexity(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / name / "complexity.yaml").read_text())


@pytest.mark.parametrize("name", COUNTED)
def test_form(name: str) -> None:
    file = complexity(name)
    assert set(file) == {"program", "parameters", "kernels"}
    assert file["program"] == name
    for kernel, metrics in file["kernels"].items():
        assert set(metrics) <= set(METRICS), kernel
        for exponents in metrics.values():
            assert set(exponents) <= set(file["parameters"])
            for exponent in exponents.values():
                pair = exponent if isinstance(exponent, list) else [exponent, 0]
                assert len(pair) == 2
                assert all(isinstance(number, int) for number in pair)


@pytest.mark.parametrize("name", COUNTED)
def test_kernels_exist_and_are_documented(name: str) -> None:
    source = "".join(file.read_text() for file in (EXAMPLES / name).glob(f"{name}.c*"))
    readme = (EXAMPLES / name / "README.md").read_text()
    for kernel in complexity(name)["kernels"]:
        for function in kernel.split("->"):
            assert re.search(rf"\b{function}\(", source), kernel
            if not function.startswith("MPI_") and not function.startswith("solve_"):
                assert f"`{function}`" in readme


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_of_the_source_is_documented(name: str) -> None:
    source = "".join(file.read_text() for file in (EXAMPLES / name).glob(f"{name}.c*"))
    readme = (EXAMPLES / name / "README.md").read_text()
    kernels = re.findall(r"^KERNEL [\w:<> ]*?\*?(\w+)\(", source, flags=re.MULTILINE)
    assert len(kernels) >= 8
    for kernel in kernels:
        assert f"`{kernel}`" in readme
