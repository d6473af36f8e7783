// The table of entry points of the fake CUDA driver. The table is made from the list in driver.hpp, so no entry point
// can be missing.
#include <unistd.h>

#include "tests/runtime_cuda/fake_state.hpp"

using namespace cubit::runtime::cuda;

namespace cubit::fake {
namespace {

/// The common start of every call: records the call and returns the failure that the test asked for, if any.
Result before(const char* function) {
  if (state().gone) return kDeinitialized;
  if (state().process != ::getpid()) return kNotInitialized;
  const auto failure = state().failures.find(function);
  return failure == state().failures.end() ? kSuccess : failure->second;
}

template <class Signature, Signature* kFunction>
struct Entry;
template <class... Arguments, Result (*kFunction)(Arguments...)>
struct Entry<Result(Arguments...), kFunction> {
  static inline const char* name = "";
  static Result call(Arguments... arguments) {
    const std::lock_guard lock(state().mutex);
    const Result result = before(name);
    return result == kSuccess ? kFunction(arguments...) : result;
  }
};

struct EntryPoint {
  int version;
  void* address;
};

const std::map<std::string, EntryPoint>& entry_points() {
#define CUBIT_FAKE(function, version, parameters)                    \
  {#function,                                                        \
   {version, (Entry<decltype(function), function>::name = #function, \
              reinterpret_cast<void*>(&Entry<decltype(function), function>::call))}},
  static const std::map<std::string, EntryPoint> table = {CUBIT_CUDA_FUNCTIONS(CUBIT_FAKE)
                                                              CUBIT_CUDA_OPTIONAL_FUNCTIONS(CUBIT_FAKE)};
#undef CUBIT_FAKE
  return table;
}

}  // namespace
}  // namespace cubit::fake

#define CUBIT_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

CUBIT_FAKE_EXPORT Result cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags,
                                             int* status);
CUBIT_FAKE_EXPORT Result cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags,
                                             int* status) {
  const auto found = cubit::fake::entry_points().find(symbol);
  const bool known = found != cubit::fake::entry_points().end() && found->second.version == version &&
                     flags == kLegacyStream && !cubit::fake::state().hidden.contains(symbol);
  *function = known ? found->second.address : nullptr;
  *status = known ? 0 : 1;
  return known ? kSuccess : 500;
}

CUBIT_FAKE_EXPORT cubit::fake::Controls* cubit_fake_controls() { return &cubit::fake::state(); }
