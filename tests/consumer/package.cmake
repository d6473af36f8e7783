# Makes the Debian packages of BUILD, unpacks them into a root of their own, and builds and runs the C program SOURCE
# against that root with pkg-config. All files lie below SCRATCH, which is created anew.
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(usr ${SCRATCH}/root/usr)

function(step)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BUILD} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Uncompressed packages, because compression is most of the time of a package.
step(${CPACK} -G DEB -B ${SCRATCH} -D CPACK_DEBIAN_COMPRESSION_TYPE=none)
set(names "libcubit0;cubit;libcubit-dev")
foreach(name IN LISTS names)
  file(GLOB package ${SCRATCH}/${name}_*.deb)
  if(NOT package)
    message(FATAL_ERROR "cpack made no package ${name}")
  endif()
  step(dpkg-deb -x ${package} ${SCRATCH}/root)
  execute_process(COMMAND dpkg-deb -f ${package} Depends OUTPUT_VARIABLE depends_${name} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# The packages of the distribution that programs need are those that dpkg-shlibdeps found, and the packages of one version
# belong together.
set(wanted_libcubit0 "libc6 \\(>=" "libstdc\\+\\+6 \\(>=")
set(wanted_cubit "libcubit0 \\(= ${VERSION}\\)" "libc6 \\(>=")
set(wanted_libcubit-dev "libcubit0 \\(= ${VERSION}\\)" "cubit \\(= ${VERSION}\\)")
foreach(name IN LISTS names)
  foreach(wanted IN LISTS wanted_${name})
    if(NOT depends_${name} MATCHES "${wanted}")
      message(SEND_ERROR "package ${name} does not depend on ${wanted}, but on ${depends_${name}}")
    endif()
  endforeach()
endforeach()
if(depends_libcubit0 MATCHES "LLVM|cuda|nvrtc")
  message(SEND_ERROR "libcubit0 depends on a library that it opens at run time: ${depends_libcubit0}")
endif()

foreach(file share/doc/cubit/docs/embedding_c.md share/doc/cubit/LICENSE include/cubit/device/core/types.cuh
             include/cubit/device/attention/score_user.cuh ${LIBDIR}/cmake/cubit/cubitConfig.cmake)
  if(NOT EXISTS ${usr}/${file})
    message(SEND_ERROR "the packages lack /usr/${file}")
  endif()
endforeach()

set(ENV{PKG_CONFIG_PATH} ${usr}/${LIBDIR}/pkgconfig)
execute_process(COMMAND pkg-config --cflags --libs "cubit >= ${VERSION}" OUTPUT_VARIABLE flags
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
step(${CC} -std=c99 -Wall -Wextra -Werror ${SOURCE} ${flags} -o ${SCRATCH}/consumer)

set(ENV{LD_LIBRARY_PATH} ${usr}/${LIBDIR})
execute_process(COMMAND ${SCRATCH}/consumer ${DEVICE} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "([0-9]+)\\.([0-9]+)\\.([0-9]+)" all ${VERSION})
math(EXPR number "${CMAKE_MATCH_1} * 10000 + ${CMAKE_MATCH_2} * 100 + ${CMAKE_MATCH_3}")
set(expected "${number} gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 42\n")
if(NOT said STREQUAL expected)
  message(FATAL_ERROR "the consumer said\n  ${said}instead of\n  ${expected}")
endif()
unset(ENV{LD_LIBRARY_PATH})
step(${usr}/bin/cubit --help)
