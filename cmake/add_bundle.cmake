# Compiles kernels when a program is built, and links them into the program as a bundle.
#
#   cubit_add_bundle(NAME ARCHITECTURES ARCHITECTURE... [DESCRIPTORS DESCRIPTOR...] [FILE LIST] [PTX])
#
# NAME is a new static library. Its header <NAME.h> declares NAME_bundle(), which returns the bundle for the member
# bundle_memory of cubit_engine_options. LIST has one descriptor per line. PTX adds code for CPU devices. The build needs
# NVRTC and no GPU. Compiled kernels stay in NAME.cache of the build folder, so that a changed list compiles only what is
# new.
function(cubit_add_bundle name)
  cmake_parse_arguments(PARSE_ARGV 1 BUNDLE "PTX" "FILE" "DESCRIPTORS;ARCHITECTURES")
  if(NOT TARGET cubit::tool)
    message(FATAL_ERROR "cubit_add_bundle(${name}): this cubit was built without its command line; build it with "
                        "CUBIT_BUILD_TOOLS=ON")
  endif()
  if(BUNDLE_UNPARSED_ARGUMENTS OR NOT BUNDLE_ARCHITECTURES OR NOT (BUNDLE_FILE OR BUNDLE_DESCRIPTORS))
    message(FATAL_ERROR "cubit_add_bundle(${name}): give ARCHITECTURES, and DESCRIPTORS or FILE; "
                        "not known: \"${BUNDLE_UNPARSED_ARGUMENTS}\"")
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.bundle)
  set(bundle ${folder}/${name}.cubit)
  list(JOIN BUNDLE_ARCHITECTURES "," architectures)
  set(options --arch ${architectures} --cache-dir ${CMAKE_CURRENT_BINARY_DIR}/${name}.cache)
  if(BUNDLE_PTX)
    list(APPEND options --ptx)
  endif()
  if(BUNDLE_FILE)
    get_filename_component(BUNDLE_FILE "${BUNDLE_FILE}" ABSOLUTE)
    list(APPEND options --file ${BUNDLE_FILE})
  endif()
  add_custom_command(
    OUTPUT ${bundle}
    COMMAND cubit::tool compile ${BUNDLE_DESCRIPTORS} ${options} --bundle ${bundle}
    DEPENDS cubit::tool ${BUNDLE_FILE}
    COMMENT "Compiling the kernels of ${name}"
    VERBATIM)

  file(CONFIGURE OUTPUT ${folder}/${name}.h CONTENT [[
/* The bundle @name@, which the build made. */
#pragma once
#include <cubit/cubit.h>
#ifdef __cplusplus
extern "C"
#endif
cubit_bundle_memory @name@_bundle(void);
]] @ONLY)
  file(CONFIGURE OUTPUT ${folder}/${name}.cpp CONTENT [[
#include "@name@.h"
__asm__(".pushsection .rodata\n"
        ".hidden @name@_bundle_begin\n.global @name@_bundle_begin\n@name@_bundle_begin:\n"
        ".incbin \"@bundle@\"\n"
        ".hidden @name@_bundle_end\n.global @name@_bundle_end\n@name@_bundle_end:\n"
        ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const char @name@_bundle_begin[], @name@_bundle_end[];
cubit_bundle_memory @name@_bundle(void) {
  return {"@name@", @name@_bundle_begin, static_cast<size_t>(@name@_bundle_end - @name@_bundle_begin)};
}
]] @ONLY)
  set_source_files_properties(${folder}/${name}.cpp PROPERTIES OBJECT_DEPENDS ${bundle})
  add_library(${name} STATIC ${folder}/${name}.cpp)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PUBLIC ${folder})
  target_link_libraries(${name} PUBLIC cubit::cubit)
endfunction()
