# Common compile flags of all targets, and functions that define layers of the library and test programs.

# Warnings are errors with the compilers of CI; a newer compiler may warn of more. CUBIT_SANITIZE selects sanitizers.
add_library(cubit_flags INTERFACE)
target_compile_options(cubit_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  target_compile_options(cubit_flags INTERFACE -Werror)
endif()
# GCC 12 wrongly warns of overlapping copies in "text" + std::string (GCC bug 105651).
target_compile_options(
  cubit_flags INTERFACE $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
# GCC 13 takes a reference that a function returns for a reference to the function's argument (GCC bug 107532).
target_compile_options(
  cubit_flags INTERFACE $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>)
# The linker leaves out of libcubit what no exported function reaches.
target_compile_options(cubit_flags INTERFACE -ffunction-sections -fdata-sections)
# A unity build compiles several files as one, in which their local names must differ, and hide each other.
if(CMAKE_UNITY_BUILD)
  target_compile_options(cubit_flags INTERFACE -Wno-shadow)
  target_compile_options(cubit_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-include${PROJECT_SOURCE_DIR}/cmake/unity_names.hpp>)
endif()
if(CUBIT_SANITIZE)
  target_compile_options(cubit_flags INTERFACE -fsanitize=${CUBIT_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all -DCUBIT_SANITIZED)
  target_link_options(cubit_flags INTERFACE -fsanitize=${CUBIT_SANITIZE})
endif()

# libfmt is compiled into every object, so that the installed library needs no libfmt at run time. CUBIT_SHARED_FMT
# links the shared libfmt instead.
add_library(cubit_fmt INTERFACE)
target_link_libraries(cubit_fmt INTERFACE $<IF:$<BOOL:${CUBIT_SHARED_FMT}>,fmt::fmt,fmt::fmt-header-only>)

# Optimises source files of the current folder for size in Release. A unity build compiles several files as one, which has
# one set of options, so the files stay as they are.
function(cubit_optimise_for_size)
  if(NOT CMAKE_UNITY_BUILD)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")
  endif()
endfunction()

# Defines one layer of the library: a static archive that becomes part of libcubit. A layer sees only the layers that it
# links to. The test tests/layers rejects an #include of a higher layer.
function(cubit_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${LAYER_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE cubit_flags cubit_fmt PUBLIC ${LAYER_LINKS})
endfunction()

# Defines one GoogleTest program, whose tests are registered one by one. `make test` runs the tests without the labels slow
# and product. The lists hold GoogleTest patterns:
#   SLOW       Only `make test-all` and samples run these tests, which carry the label slow.
#   FIRST      Of these tests, which have parameters, `make test` runs the first. The others are SLOW.
#   PRODUCT    These tests compile long lists of kernels, of which CUBIT_TEST_SAMPLE chooses a part (see
#              tests/support/sample.hpp). The tests carry the label product. `make test` runs glance.<test>, which is the
#              same test over one kernel in 100.
#   NO_GLANCE  These tests carry the label product, but `make test` does not glance at them.
function(cubit_test name)
  cmake_parse_arguments(TEST "" "LABEL" "SOURCES;LINKS;SLOW;FIRST;PRODUCT;NO_GLANCE" ${ARGN})
  foreach(test IN LISTS TEST_FIRST)
    foreach(digit RANGE 1 9)
      list(APPEND TEST_SLOW "${test}/${digit}*")
    endforeach()
  endforeach()
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE cubit_flags cubit_fmt ${TEST_LINKS} GTest::gtest_main GTest::gmock)
  # Parameter values would become part of the test names. Some values are bytes of structs that differ from run to run.
  set(options NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60)
  list(JOIN TEST_SLOW ":" slow)
  list(JOIN TEST_PRODUCT ":" product)
  list(JOIN TEST_NO_GLANCE ":" no_glance)
  gtest_discover_tests(${name} ${options} TEST_FILTER "-${slow}:${product}:${no_glance}" PROPERTIES LABELS "${TEST_LABEL}")
  if(TEST_SLOW)
    gtest_discover_tests(${name} ${options} TEST_FILTER "${slow}" TEST_LIST ${name}_SLOW PROPERTIES LABELS slow)
  endif()
  if(TEST_PRODUCT OR TEST_NO_GLANCE)
    gtest_discover_tests(${name} ${options} TEST_FILTER "${product}:${no_glance}" TEST_LIST ${name}_PRODUCT
                         PROPERTIES LABELS product)
  endif()
  if(TEST_PRODUCT)
    gtest_discover_tests(${name} ${options} TEST_FILTER "${product}" TEST_LIST ${name}_GLANCE TEST_PREFIX glance.
                         PROPERTIES ENVIRONMENT CUBIT_TEST_SAMPLE=0/100)
  endif()
endfunction()
