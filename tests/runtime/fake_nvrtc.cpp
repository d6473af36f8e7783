// A fake NVRTC of version FAKE_MAJOR.FAKE_MINOR, for the tests of the search. It "compiles" an empty program to a
// comment with the build number, and refuses every other program.
#include <cstddef>
#include <cstring>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define FAKE __attribute__((visibility("default")))

namespace {
constexpr char kPtx[] = "// Cuda compilation tools, release " TEXT(FAKE_MAJOR) "." TEXT(FAKE_MINOR) ", V" TEXT(
    FAKE_MAJOR) "." TEXT(FAKE_MINOR) ".7\n";
int program = 0;
bool empty = false;
}  // namespace

extern "C" {
FAKE int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_MAJOR;
  *minor = FAKE_MINOR;
  return 0;
}
FAKE const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_FAKE"; }
FAKE int nvrtcCreateProgram(void** handle, const char* source, const char*, int, const char* const*,
                            const char* const*) {
  empty = *source == '\0';
  *handle = &program;
  return 0;
}
FAKE int nvrtcCompileProgram(void*, int, const char* const*) { return empty ? 0 : 6; }
FAKE int nvrtcDestroyProgram(void**) { return 0; }
FAKE int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  *size = 1;
  return 0;
}
FAKE int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return 0;
}
FAKE int nvrtcGetPTXSize(void*, std::size_t* size) {
  *size = sizeof kPtx;
  return 0;
}
FAKE int nvrtcGetPTX(void*, char* ptx) {
  std::memcpy(ptx, kPtx, sizeof kPtx);
  return 0;
}
#ifndef FAKE_WITHOUT_CUBIN
FAKE int nvrtcGetCUBINSize(void*, std::size_t*) { return 1; }
FAKE int nvrtcGetCUBIN(void*, char*) { return 1; }
#endif
}
