// The internal state of the fake CUDA driver, and the functions that check its rules. Tests include fake_driver.hpp
// instead.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime_cuda/fake_driver.hpp"

namespace cubit::fake {

using namespace runtime::cuda;

// CUresult values.
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureInvalidated = 901;
inline constexpr Result kNotCaptured = 904;
inline constexpr int kCaptureGlobal = 0;
inline constexpr int kDefaultShared = 48 * 1024;

struct FakeContext {
  unsigned long long id = 0;  ///< 0: not alive
  int device = 0;
};

struct FakeStream {
  bool blocking = false;
  int capture = -1;  ///< capture mode, or -1
  bool invalidated = false;
  std::thread::id thread;
};

struct FakeFunction {
  unsigned long long context = 0;
  int shared_limit = kDefaultShared;
  bool large_clusters = false;
};

struct State final : Controls {
  std::mutex mutex;
  int devices = 0;
  int process = 0;  ///< the process of the last reset; as with a real driver, every call of its children fails
  bool gone = false;
  std::map<std::string, Result, std::less<>> failures;
  std::set<std::string> hidden;
  std::set<int> unknown_attributes;
  std::array<int, 2> capability = {9, 0};
  std::array<FakeContext, 256> contexts;
  unsigned long long next_id = 1;
  std::map<int, std::pair<FakeContext*, int>> primaries;  ///< device -> context and number of retains
  std::vector<std::unique_ptr<FakeStream>> streams;
  std::vector<std::unique_ptr<FakeFunction>> functions;
  std::set<void*> libraries;
  int load_count = 0;
  std::vector<std::string> ptx;
  int unload_count = 0;
  int map_count = 0;
  std::set<void*> memory;
  std::vector<LaunchRecord> launch_log;
  std::vector<LimitRecord> limit_log;

  void reset(int count) override;
  void fail(const char* function, int result) override;
  void hide(const char* function) override { hidden.insert(function); }
  void forget_attribute(int attribute) override { unknown_attributes.insert(attribute); }
  void set_capability(int major, int minor) override { capability = {major, minor}; }
  void shut_down() override { gone = true; }
  Context create_context(int device) override;
  void destroy_context(Context context) override;
  std::vector<Context> stack() override;
  int primary_retains(int device) override { return primaries[device].second; }
  DriverStream blocking_stream() override;
  bool capture_valid(DriverStream stream) override;
  int loads() override { return load_count; }
  std::vector<std::string> loaded_ptx() override { return ptx; }
  int unloads() override { return unload_count; }
  int encoded_maps() override { return map_count; }
  int allocations() override { return static_cast<int>(memory.size()); }
  std::vector<LaunchRecord> launches() override { return launch_log; }
  std::vector<LimitRecord> limits() override { return limit_log; }
};

/// The state is never destroyed. Readers and writers hold its mutex; driver functions hold it when they are called.
State& state();

inline thread_local std::vector<FakeContext*> t_stack;
inline thread_local int t_mode = kCaptureGlobal;

inline FakeContext* context_of(Context handle) { return reinterpret_cast<FakeContext*>(handle); }
inline Context handle_of(FakeContext* context) { return reinterpret_cast<Context>(context); }
inline FakeStream* stream_of(DriverStream handle) { return reinterpret_cast<FakeStream*>(handle); }

FakeContext* current();  ///< of this thread, or nullptr
FakeContext* new_context(int device);

/// Whether captures forbid this thread a potentially unsafe call ("CUDA Driver API",
/// cuThreadExchangeStreamCaptureMode). The attempt invalidates these captures.
bool unsafe_call_forbidden();
bool blocking_capture();
/// The common start of calls that put work on a stream: returns an error, or sets `captured`.
Result enqueue(DriverStream handle, bool& captured);

// The driver's functions by name. The mutex is held, and failures that the test asked for are handled before.
#define CUBIT_FAKE_DECLARE(function, version, parameters) Result function parameters;
CUBIT_CUDA_FUNCTIONS(CUBIT_FAKE_DECLARE)
CUBIT_CUDA_OPTIONAL_FUNCTIONS(CUBIT_FAKE_DECLARE)
#undef CUBIT_FAKE_DECLARE

}  // namespace cubit::fake
