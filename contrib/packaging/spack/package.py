# SPDX-License-Identifier: BSD-3-Clause
import os

from spack.package import *

try:  # Spack 1.0 and later
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
except ImportError:
    from spack.build_systems.autotools import AutotoolsPackage

# The releases of UCX that have a plug-in for UCP, with the checksums of their sources. The transport is compiled with
# private headers of the release that it is for.
_UCX = {
    "1.13.1": "efc37829b68e131d2acc82a3fd4334bfd611156a756837ffeb650ab9a9dd3828",
    "1.16.0": "f73770d3b583c91aba5fb07557e655ead0786e057018bfe42f0ebe8716e9d28c",
    "1.17.0": "34658e282f99f89ce7a991c542e9727552734ac6ad408c52f22b4c2653b04276",
    "1.18.1": "8018dd75f11b5e8d6e57dcdb5b798d2c1f000982c353efde1f3170025c6c3b4c",
    "1.19.1": "dea5d821fce05b6ffe175a74e6e148386dd85791409fc71242f3d1369100fd8a",
    "1.20.1": "545c419a7b5e04643cb8bff5a19b3b5071a8f8f0605f1e8efb36f8f3d7bfb9d3",
    "1.21.0": "2374d2fcf3186fbfd5e27633ab153aabaeb6b4f503a88563d2aca67cf51ed2c1",
    "1.22.0": "258941cddd14ca60d38c0d31b9b09ec1052c901086841011a498da8b55a3cb24",
}


class UcxTern(AutotoolsPackage):
    """Transport of UCX for InfiniBand and RoCE, an RDMA device in software, and a library of notified writes."""

    # The tarball that `make dist` makes, in the working folder: spack install --no-checksum ucx-tern
    url = f"file://{os.getcwd()}/ucx-tern-0.3.0.tar.gz"

    license("BSD-3-Clause")

    version("0.3.0")

    variant("pmix", default=True, description="programs of rwapi start under launchers that speak PMIx")

    variant("fortran", default=False, description="a module of rwapi for Fortran, of gfortran")
    variant("python", default=False, description="a module of rwapi for Python")

    depends_on("c", type="build")  # Spack 0.22 does not know this language yet, and refuses
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("pkgconfig", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("rdma-core")
    depends_on("pmix", when="+pmix")
    extends("python", when="+python")
    depends_on("ucx@" + ",".join("=" + release for release in _UCX), type=("build", "link", "run"))

    for release, checksum in _UCX.items():
        resource(
            name="ucx",
            url=f"https://github.com/openucx/ucx/releases/download/v{release}/ucx-{release}.tar.gz",
            sha256=checksum,
            placement="ucx-source",
            when=f"^ucx@={release}",
        )

    def configure_args(self):
        return [
            f"--with-ucx={self.spec['ucx'].prefix}",
            f"--with-ucx-src={self.stage.source_path}/ucx-source",
            *self.with_or_without("fortran"),
            *self.with_or_without("pmix"),
            *self.with_or_without("python"),
        ]

    def setup_run_environment(self, env):
        # As tern-run sets it: shared memory and the transports that detect the memory of GPUs stay.
        if self.spec.satisfies("^ucx@1.18:"):
            env.set("UCX_TLS", "^ib,ib:aux,gga_mlx5,srd,rc_gda,tcp")
        else:
            kinds = [kind for kind in ("cuda", "rocm") if self.spec.satisfies(f"^ucx+{kind}")]
            env.set("UCX_TLS", ",".join(["tern", "self", "sm"] + kinds))
        if self.spec.satisfies("^ucx@1.22:"):
            env.prepend_path("UCX_PLUGIN_PATH", self.prefix.lib.join("ucx-tern"))
        else:
            env.prepend_path("LD_PRELOAD", self.prefix.lib.join("ucx-tern").join("libuct_tern.so.0"))
