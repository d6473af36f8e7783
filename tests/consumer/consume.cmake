# Installs BUILD into a prefix, moves the prefix, then configures, builds and runs the project SOURCE against it. All
# files lie below SCRATCH, which is created anew.
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first)
file(RENAME ${SCRATCH}/first ${SCRATCH}/moved)
file(GLOB_RECURSE package_files ${SCRATCH}/moved/${LIBDIR}/cmake/*.cmake)
foreach(file IN LISTS package_files)
  file(READ ${file} text)
  foreach(folder ${SCRATCH}/first ${BUILD})
    string(FIND "${text}" "${folder}" position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} names ${folder}: the package cannot be moved")
    endif()
  endforeach()
endforeach()

# The README's C++ example is a complete program. The test docs.snippets runs the example; here the package compiles it.
file(READ ${README} text)
if(NOT text MATCHES "```cpp program\n([^`]*)```")
  message(FATAL_ERROR "${README} has no C++ program")
endif()
file(WRITE ${SCRATCH}/readme.cpp "${CMAKE_MATCH_1}")

set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
# Kernels are compiled at build time where the machine has NVRTC. `make test` expects NVRTC.
execute_process(COMMAND ${SCRATCH}/moved/bin/cubit compile stream_read --arch sm_80 --cache-dir ${SCRATCH}/cache
                RESULT_VARIABLE compile_failed OUTPUT_QUIET ERROR_VARIABLE compile_error)
set(with_bundle ON)
if(compile_failed)
  set(with_bundle OFF)
  if(DEFINED ENV{CUBIT_EXPECT_NVRTC} OR NOT compile_error MATCHES "NVRTC")
    message(FATAL_ERROR "the installed command line cannot compile: ${compile_error}")
  endif()
endif()

step(${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
     -DCMAKE_CXX_FLAGS=${flags} -DCMAKE_PREFIX_PATH=${SCRATCH}/moved -DREADME_EXAMPLE=${SCRATCH}/readme.cpp
     -DEXAMPLES=${EXAMPLES} -DWITH_BUNDLE=${with_bundle})
step(${CMAKE_COMMAND} --build ${SCRATCH}/build)

# The program prints the version of the headers and of the package, and a descriptor in canonical order.
string(REGEX MATCH "([0-9]+)\\.([0-9]+)\\.([0-9]+)" all ${VERSION})
math(EXPR number "${CMAKE_MATCH_1} * 10000 + ${CMAKE_MATCH_2} * 100 + ${CMAKE_MATCH_3}")
execute_process(COMMAND ${SCRATCH}/build/consumer OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
set(expected "${number} gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4\n")
if(NOT said STREQUAL expected)
  message(FATAL_ERROR "the consumer said\n  ${said}instead of\n  ${expected}")
endif()

step(${SCRATCH}/build/calibrate)

if(with_bundle)
  execute_process(COMMAND ${SCRATCH}/build/precompile/precompile OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said STREQUAL "6 kernels of the bundle\n")
    message(FATAL_ERROR "the program with a bundle said\n  ${said}")
  endif()
endif()

# The installed command line starts from its new place.
if(EXISTS ${SCRATCH}/moved/bin/cubit)
  step(${SCRATCH}/moved/bin/cubit --help)
else()
  message(FATAL_ERROR "the command line is not installed")
endif()
