# Defines the target cubit_commit. Targets that link it can include "cubit_commit.hpp", which holds the commit of the
# sources at build time.
set(commit_folder ${PROJECT_BINARY_DIR}/commit)
set(commit_header ${commit_folder}/cubit_commit.hpp)

add_custom_target(
  cubit_commit_header
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${commit_header} -P
          ${CMAKE_CURRENT_LIST_DIR}/commit.cmake
  BYPRODUCTS ${commit_header}
  COMMENT "")
add_library(cubit_commit INTERFACE)
add_dependencies(cubit_commit cubit_commit_header)
target_include_directories(cubit_commit SYSTEM INTERFACE ${commit_folder})
