"""A newer version than Spack's own repository has."""

from spack_repo.builtin.packages.py_tenacity.package import PyTenacity as BuiltinPyTenacity

from spack.package import *


class PyTenacity(BuiltinPyTenacity):
    __doc__ = BuiltinPyTenacity.__doc__

    version("9.2.1", sha256="a606b5c808d0cded4a359d5b9932d867ff2a6a6b64d37350260fd01bbdf83839")

    with default_args(type="build", when="@9.2:"):
        depends_on("py-hatchling")
        depends_on("py-hatch-vcs")
