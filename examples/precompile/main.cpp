// Example: takes every kernel from the bundle that the build linked into the program.
//
// The engine has no cache folder and may not compile, as in a serving process that must never wait for a compiler.
#include <kernels.h>

#include <cubit/cubit.hpp>
#include <iostream>

int main() try {
  cubit::EngineOptions options;
  options.cache_dir = options.system_caches = options.bundles = "";
  options.compile = CUBIT_COMPILE_NEVER;
  options.bundle_memory = {kernels_bundle()};
  const cubit::Engine engine(options);
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    for (const char* descriptor : {"merge:head_dim=64", "merge", "stream_read"}) engine.get(descriptor, architecture);
  }
  std::cout << engine.counters().disk_hits << " kernels of the bundle\n";
} catch (const cubit::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
