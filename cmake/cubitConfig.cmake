# The package of find_package(cubit): the targets cubit::cubit, cubit::check, cubit::calibrate and cubit::tool, and the
# function cubit_add_bundle.
include(${CMAKE_CURRENT_LIST_DIR}/cubitTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/add_bundle.cmake)
