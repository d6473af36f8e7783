# What every target of this project is compiled with, and the layers that may see each other.

# Warnings are errors; sanitizers as asked for.
add_library(cubit_flags INTERFACE)
target_compile_options(cubit_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# GCC 12 sees overlapping copies in "text" + std::string where there are none (its bug 105651).
target_compile_options(
  cubit_flags INTERFACE $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(CUBIT_SANITIZE)
  target_compile_options(cubit_flags INTERFACE -fsanitize=${CUBIT_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all)
  target_link_options(cubit_flags INTERFACE -fsanitize=${CUBIT_SANITIZE})
endif()

# Compiled into every object, so that what is installed needs nothing else at run time; or linked.
add_library(cubit_fmt INTERFACE)
target_link_libraries(cubit_fmt INTERFACE $<IF:$<BOOL:${CUBIT_SHARED_FMT}>,fmt::fmt,fmt::fmt-header-only>)

# One layer of the library: a static archive that becomes part of libcubit. Layers see only what they are linked to:
# tests/layers (a test) rejects an #include that climbs.
function(cubit_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${LAYER_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE cubit_flags cubit_fmt PUBLIC ${LAYER_LINKS})
endfunction()

# One GoogleTest program, registered test by test.
function(cubit_test name)
  cmake_parse_arguments(TEST "" "LABEL" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE cubit_flags cubit_fmt ${TEST_LINKS} GTest::gtest_main GTest::gmock)
  # Values of parameters would be part of the names, and some are bytes of structs, which no two runs have alike.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${TEST_LABEL}")
endfunction()
