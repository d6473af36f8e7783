# Debian packages, by `cpack -G DEB` in a build folder: libcubit0 (the libraries), cubit (the command line and the CPU
# device) and libcubit-dev (headers, documentation, find_package and pkg-config). dpkg-shlibdeps finds the dependencies on
# packages of the distribution, so packages must be built on the distribution that they are for.
set(CPACK_PACKAGE_VENDOR cubit)
set(CPACK_PACKAGE_CONTACT "the authors of cubit <cubit@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Low-bit attention and GEMM kernels for NVIDIA GPUs, generated at run time")
set(CPACK_COMPONENTS_ALL runtime tool development)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/capi)
set(same_version "(= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libcubit${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "cubit ${same_version}")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "The shared libraries. A program that compiles kernels also needs NVIDIA's NVRTC.")

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME cubit)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS "libcubit${PROJECT_VERSION_MAJOR} ${same_version}")
set(CPACK_COMPONENT_TOOL_DESCRIPTION "The command line, and the CPU device, which executes kernels without a GPU.")

# find_package(cubit) also defines the command line as a target, which compiles bundles when a program is built.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcubit-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libcubit${PROJECT_VERSION_MAJOR} ${same_version}, cubit ${same_version}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers for C, C++ and device code, documentation, find_package and pkg-config.")
include(CPack)
