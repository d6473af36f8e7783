# Configures the project SOURCE, which contains cubit's tree ROOT. BUILD_ALL=ON also builds libcubit and the program MAIN,
# and runs it. All files lie below SCRATCH, which is created anew.
file(REMOVE_RECURSE ${SCRATCH})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH} -G Ninja -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX}
          -DCUBIT_SOURCE=${ROOT} -DMAIN=${MAIN} -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_UNIQUE_ID=CUBIT_UNITY_FILE
          -DCUBIT_SHARED_FMT=ON COMMAND_ERROR_IS_FATAL ANY)
if(NOT BUILD_ALL)
  return()
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${SCRATCH} --target container COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${SCRATCH}/container OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(NOT said MATCHES "^[0-9]+ gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 42\n$")
  message(FATAL_ERROR "the program said\n  ${said}")
endif()
execute_process(COMMAND ${READELF} -d ${SCRATCH}/container OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
if(needed MATCHES "libcubit")
  message(FATAL_ERROR "the program needs a shared library of cubit:\n${needed}")
endif()
