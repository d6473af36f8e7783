# Writes OUTPUT, a header with the commit of SOURCE_DIR, so that a benchmark's JSON names its code. The file is written
# only if the commit has changed. Usage: cmake -DSOURCE_DIR=… -DOUTPUT=… -P commit.cmake
set(commit "unknown")
find_program(git git)
if(git)
  execute_process(
    COMMAND ${git} -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE found
    RESULT_VARIABLE result
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(result EQUAL 0 AND found)
    set(commit "${found}")
  endif()
endif()
set(text "#pragma once\n\nnamespace cubit {\n\ninline constexpr const char* kCommit = \"${commit}\";\n\n}\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
