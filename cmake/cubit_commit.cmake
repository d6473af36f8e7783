# cubit_commit: a target to link to, for "cubit_commit.hpp": the commit that the sources are at when they are built.
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
