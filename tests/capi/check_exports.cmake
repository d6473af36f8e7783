# A library exports the functions that its header declares, all of them and nothing else.
#   cmake -DNM=… -DLIBRARY=… -DHEADER=… -DLEAST=… -P check_exports.cmake
# LEAST: how many declarations the header has at least, so that a check that no longer reads the header fails.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY} OUTPUT_VARIABLE listing
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${listing}")
set(exported "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "[ @].*" "" name "${line}")
  list(APPEND exported ${name})
endforeach()

file(READ ${HEADER} text)
string(REGEX MATCHALL "CUBIT_API [a-z_0-9 *]*[ *]cubit_[a-z_0-9]+\\(" declarations "${text}")
set(declared "")
foreach(declaration IN LISTS declarations)
  string(REGEX REPLACE ".*[ *](cubit_[a-z_0-9]+)\\($" "\\1" name "${declaration}")
  list(APPEND declared ${name})
endforeach()

list(LENGTH declared count)
if(count LESS LEAST)
  message(FATAL_ERROR "only ${count} declarations were found in ${HEADER}: this check no longer reads it")
endif()
foreach(name IN LISTS exported)
  if(NOT name IN_LIST declared)
    message(SEND_ERROR "exported, but not in ${HEADER}: ${name}")
  endif()
endforeach()
foreach(name IN LISTS declared)
  if(NOT name IN_LIST exported)
    message(SEND_ERROR "in ${HEADER}, but not exported: ${name}")
  endif()
endforeach()
