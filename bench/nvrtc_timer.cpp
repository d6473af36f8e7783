// nvrtc_timer: a library that looks like NVRTC, passes every call on to the real NVRTC, and measures the calls. The
// library tells how much of a program's CPU time is the compiler's.
//
//   CUBIT_NVRTC=libnvrtc_timer.so NVRTC_TIMER_LIBRARY=<real NVRTC> NVRTC_TIMER_OUTPUT=times.json cubit compile ...
//
// At the end of the process the library writes {"compiles", "cpu_seconds", "wall_seconds"}: the number of compiled
// programs, and the CPU time and the time that threads spent inside of calls. CPU time of threads that NVRTC starts
// itself is not counted.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

using Handle = struct NvrtcProgram*;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

/// Sums over all threads, written to a file at the end of the process.
struct Times {
  std::atomic<std::int64_t> compiles{0};
  std::atomic<std::int64_t> cpu{0};
  std::atomic<std::int64_t> wall{0};

  ~Times() {
    const char* path = std::getenv("NVRTC_TIMER_OUTPUT");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return;
    std::fprintf(file, "{\"compiles\": %lld, \"cpu_seconds\": %.9f, \"wall_seconds\": %.9f}\n",
                 static_cast<long long>(compiles), static_cast<double>(cpu) * 1e-9, static_cast<double>(wall) * 1e-9);
    std::fclose(file);
  }
};
Times g_times;

/// Adds the time of its scope.
class Stopwatch {
 public:
  ~Stopwatch() {
    g_times.cpu += nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_;
    g_times.wall += nanoseconds(CLOCK_MONOTONIC) - wall_;
  }

 private:
  std::int64_t cpu_ = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  std::int64_t wall_ = nanoseconds(CLOCK_MONOTONIC);
};

void* real(const char* name) {
  static void* const library = [] {
    const char* path = std::getenv("NVRTC_TIMER_LIBRARY");
    return path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }();
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "nvrtc_timer: NVRTC_TIMER_LIBRARY names no library with the function %s\n", name);
    std::abort();
  }
  return function;
}

}  // namespace

// The parameters of each function, and their names.
#define FORWARD(name, result, parameters, arguments)                                  \
  extern "C" __attribute__((visibility("default"))) result name parameters {          \
    static const auto function = reinterpret_cast<result(*) parameters>(real(#name)); \
    const Stopwatch stopwatch;                                                        \
    return function arguments;                                                        \
  }

FORWARD(nvrtcVersion, int, (int* major, int* minor), (major, minor))
FORWARD(nvrtcGetErrorString, const char*, (int result), (result))
FORWARD(nvrtcCreateProgram, int,
        (Handle * program, const char* source, const char* name, int count, const char* const* texts,
         const char* const* names),
        (program, source, name, count, texts, names))
FORWARD(nvrtcDestroyProgram, int, (Handle * program), (program))
FORWARD(nvrtcGetProgramLogSize, int, (Handle program, std::size_t* size), (program, size))
FORWARD(nvrtcGetProgramLog, int, (Handle program, char* log), (program, log))
FORWARD(nvrtcGetPTXSize, int, (Handle program, std::size_t* size), (program, size))
FORWARD(nvrtcGetPTX, int, (Handle program, char* ptx), (program, ptx))
FORWARD(nvrtcGetCUBINSize, int, (Handle program, std::size_t* size), (program, size))
FORWARD(nvrtcGetCUBIN, int, (Handle program, char* cubin), (program, cubin))

extern "C" __attribute__((visibility("default"))) int nvrtcCompileProgram(Handle program, int count,
                                                                          const char* const* options) {
  static const auto function = reinterpret_cast<int (*)(Handle, int, const char* const*)>(real("nvrtcCompileProgram"));
  const Stopwatch stopwatch;
  ++g_times.compiles;
  return function(program, count, options);
}
