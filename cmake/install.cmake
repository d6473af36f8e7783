# Installs the libraries, their headers as <cubit/...>, the documentation, and the packages for find_package(cubit) and for
# pkg-config. tools/ installs the command line, and runtime/cpu/ the CPU device.
#
# The components are runtime (the libraries), tool (the command line and the CPU device) and development. Each becomes a
# Debian package; see package.cmake. `cmake --install` installs all of them.
include(CMakePackageConfigHelpers)

# <cubit/cubit.hpp> needs C++20. <cubit/cubit.h> is plain C and has no requirements.
target_compile_features(libcubit INTERFACE cxx_std_20)
install(TARGETS libcubit libcubit_check libcubit_calibrate EXPORT cubit
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

# The common public headers, and each operator's argument struct.
file(GLOB surfaces ${PROJECT_SOURCE_DIR}/include/cubit ${PROJECT_SOURCE_DIR}/ops/*/include/cubit)
install(DIRECTORY ${surfaces} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN *.h PATTERN *.hpp)

# The device headers that kernels and score modifications of a program's own may include. libcubit embeds them and reads
# no installed copy: these are for the reader and the editor.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/templates/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cubit/device COMPONENT development
        FILES_MATCHING PATTERN *.cuh PATTERN *.h PATTERN sample EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/cubit)
install(EXPORT cubit NAMESPACE cubit:: DESTINATION ${package} FILE cubitTargets.cmake COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cubitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cubitConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/cubitConfig.cmake
              ${PROJECT_SOURCE_DIR}/cmake/add_bundle.cmake DESTINATION ${package} COMPONENT development)

# The prefix of cubit.pc follows from the place of the file, so that an installed tree may be moved.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/cubit.pc.in ${PROJECT_BINARY_DIR}/cubit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cubit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
