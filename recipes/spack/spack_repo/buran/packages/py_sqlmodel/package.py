"""What Snakemake needs and Spack's own repository lacks."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PySqlmodel(PythonPackage):
    """SQL databases in Python by types, on SQLAlchemy and pydantic."""

    pypi = "sqlmodel/sqlmodel-0.0.37.tar.gz"

    license("MIT")

    version("0.0.37", sha256="d2c19327175794faf50b1ee31cc966764f55b1dedefc046450bc5741a3d68352")

    depends_on("py-pdm-backend", type="build")

    with default_args(type=("build", "run")):
        depends_on("py-sqlalchemy@2.0.14:2.0")
        depends_on("py-pydantic@2.11:")
