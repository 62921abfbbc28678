"""Buran, for Spack: what `pyproject.toml` declares, in Spack's words."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Buran(PythonPackage):
    """Build, run, analyse: measurement campaigns of parallel programs, turned into performance models."""

    pypi = "buran/buran-0.2.0.tar.gz"

    license("BSD-3-Clause")

    version("0.2.0")

    variant("cluster", default=False, description="Clusters with PBS, LSF and others")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")

    with default_args(type=("build", "run")):
        depends_on("snakemake@9.20:9")
        depends_on("py-numpy@2.0:")
        depends_on("py-scipy@1.15:")
        depends_on("py-threadpoolctl@3.1:")
        depends_on("py-scikit-learn@1.6:")
        depends_on("py-pyyaml@6.0:")
        depends_on("py-pydantic@2.11:")
        depends_on("py-pycubexr@2.1:2")
        depends_on("py-jinja2@3.1:")
        depends_on("py-markupsafe@2.1:")
        depends_on("py-rich@14:")
        depends_on("py-sympy@1.13:")
        depends_on("py-snakemake-executor-plugin-cluster-generic@1.0.9:1", when="+cluster")

    depends_on("mpi", type="run")
