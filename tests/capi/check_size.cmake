# A library, stripped, has at most LIMIT bytes.
#   cmake -DSTRIP=… -DLIBRARY=… -DCOPY=… -DLIMIT=… -P check_size.cmake
# COPY: where the stripped copy is written.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${STRIP} -o ${COPY} ${LIBRARY} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${COPY} size)
message(STATUS "${LIBRARY}, stripped: ${size} bytes of ${LIMIT} allowed")
if(size GREATER LIMIT)
  message(FATAL_ERROR "${LIBRARY} has ${size} bytes when stripped. At most ${LIMIT} bytes are allowed.")
endif()
