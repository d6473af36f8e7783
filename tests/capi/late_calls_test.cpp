// Tests of calls by destructors that run after cubit's thread-local memory is gone: destructors of static objects at
// process exit, and of thread-local objects that are older than the thread's first call. Errors and texts must be as
// good as ever.
#include <cubit/cubit.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

/// Memory of such late calls is leaked, a few hundred bytes per thread; see base/lifetime.hpp.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();  // NOLINT
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }             // NOLINT

namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "late_calls: %s\n", what);
  std::_Exit(1);  // destructors of other objects are running
}

/// One call that fails, and some calls that return a thread's text.
void call() {
  const char* text = nullptr;
  require(cubit_descriptor_canonical("no_such_operator:with=fields,that=are,long=enough", &text) != CUBIT_OK,
          "accepted");
  require(std::strstr(cubit_last_error()->message, "no_such_operator") != nullptr, "the error has no text");
  require(cubit_architectures(&text) == CUBIT_OK && std::strstr(text, "sm_90a") != nullptr, "no architectures");
  for (const char* descriptor : {"gqa_decode:heads_per_kv=8", "w4a16_gemm:tile_m=32,tile_n=256", "merge:head_dim=64",
                                 "kv_append:kv=fp8_e4m3", "kv_gather:kv=int4_rows", "w4_quantize:format=awq"}) {
    require(cubit_descriptor_canonical(descriptor, &text) == CUBIT_OK, descriptor);
    require(std::strcmp(text, descriptor) == 0, "another text");
  }
}

struct Late {
  Late() = default;
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;
  ~Late() {
    call();
    call();
  }
};

Late late;

}  // namespace

int main() {
  call();
  std::thread([] {
    static thread_local const Late of_thread;
    static_cast<void>(&of_thread);
    call();
  }).join();
  return 0;
}
