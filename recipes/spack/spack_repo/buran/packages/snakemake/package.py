"""A newer version than Spack's own repository has."""

from spack_repo.builtin.packages.snakemake.package import Snakemake as BuiltinSnakemake

from spack.package import *


class Snakemake(BuiltinSnakemake):
    __doc__ = BuiltinSnakemake.__doc__

    version("9.27.1", sha256="f772714bb4133f836f0b5c3124ed70ef954c223aa034d6fcaf0282a4bbb98a5e")

    with default_args(type=("build", "run"), when="@9.20:"):
        depends_on("py-platformdirs")
        depends_on("py-tenacity@9.1.4:9")
        depends_on("py-sqlmodel@0.0.37:")
        depends_on("py-snakemake-interface-executor-plugins@9.3.2:9")
        depends_on("py-snakemake-interface-storage-plugins@4.4.1:4")
        depends_on("py-snakemake-interface-report-plugins@1.2:1")
        depends_on("py-snakemake-interface-logger-plugins@1.1:2")
        depends_on("py-snakemake-interface-scheduler-plugins@2")

    depends_on("py-setuptools-scm@8:", type="build", when="@9.20:")
