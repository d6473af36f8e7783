# cmake --install: the library, its headers as <cubit/...> and find_package(cubit). tools/ adds the command line.
include(CMakePackageConfigHelpers)

# <cubit/cubit.hpp> is C++20; <cubit/cubit.h> is plain C and asks nothing of a C program.
target_compile_features(libcubit INTERFACE cxx_std_20)
install(TARGETS libcubit EXPORT cubit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# The common surface, and each operator's argument struct.
file(GLOB surfaces ${PROJECT_SOURCE_DIR}/include/cubit ${PROJECT_SOURCE_DIR}/ops/*/include/cubit)
install(DIRECTORY ${surfaces} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.hpp)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/cubit)
install(EXPORT cubit NAMESPACE cubit:: DESTINATION ${package} FILE cubitConfig.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cubitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cubitConfigVersion.cmake DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
