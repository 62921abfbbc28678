"""A newer version than Spack's own repository has."""

from spack_repo.builtin.packages.py_snakemake_interface_storage_plugins.package import PySnakemakeInterfaceStoragePlugins as BuiltinPySnakemakeInterfaceStoragePlugins

from spack.package import *


class PySnakemakeInterfaceStoragePlugins(BuiltinPySnakemakeInterfaceStoragePlugins):
    __doc__ = BuiltinPySnakemakeInterfaceStoragePlugins.__doc__

    version("4.4.1", sha256="b2b5bf05318af36955ebf2ce76c921c0fb06904ca98fb30e1657d88b7b7b6945")

    with default_args(type=("build", "run"), when="@4.4:"):
        depends_on("py-tenacity@9.1.4:9")
        depends_on("py-humanfriendly@10")
