# Installs the libraries, their headers as <cubit/...>, and the package for find_package(cubit). tools/ installs the command
# line.
include(CMakePackageConfigHelpers)

# <cubit/cubit.hpp> needs C++20. <cubit/cubit.h> is plain C and has no requirements.
target_compile_features(libcubit INTERFACE cxx_std_20)
install(TARGETS libcubit libcubit_check libcubit_calibrate EXPORT cubit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# The common public headers, and each operator's argument struct.
file(GLOB surfaces ${PROJECT_SOURCE_DIR}/include/cubit ${PROJECT_SOURCE_DIR}/ops/*/include/cubit)
install(DIRECTORY ${surfaces} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.hpp)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/cubit)
install(EXPORT cubit NAMESPACE cubit:: DESTINATION ${package} FILE cubitTargets.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cubitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cubitConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/cubitConfig.cmake
              ${PROJECT_SOURCE_DIR}/cmake/add_bundle.cmake DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
