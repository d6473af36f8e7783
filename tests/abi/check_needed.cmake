# A shared library needs no other libraries than those of the C++ compiler, libc and the list ALSO.
#   cmake -DREADELF=… -DLIBRARY=… -DALSO=… -P check_needed.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${READELF} -d ${LIBRARY} OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "[" "<" listing "${listing}")  # a list of CMake has no unbalanced brackets
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*<[^]\n]*" lines "${listing}")
if(NOT lines)
  message(FATAL_ERROR "${READELF} lists no libraries that ${LIBRARY} needs: this check no longer reads the list")
endif()
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".*<" "" name "${line}")
  string(REGEX REPLACE "[.]so[.0-9]*$" "" stem "${name}")
  if(NOT stem MATCHES "^(libstdc\\+\\+|libgcc_s|libm|libc|libpthread|libdl|ld-linux.*)$" AND NOT stem IN_LIST ALSO)
    message(SEND_ERROR "${LIBRARY} needs ${name}. A program that links the library would need it as well: link its code "
                       "statically, or open the library at run time.")
  endif()
endforeach()
