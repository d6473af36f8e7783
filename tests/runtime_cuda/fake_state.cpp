// State of the fake CUDA driver that tests set and read, and its rules for contexts and captures.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/runtime_cuda/fake_state.hpp"

namespace cubit::fake {

State& state() {
  static State* const instance = new State;
  return *instance;
}

FakeContext* current() { return t_stack.empty() || t_stack.back()->id == 0 ? nullptr : t_stack.back(); }

FakeContext* new_context(int device) {
  for (FakeContext& context : state().contexts) {
    if (context.id != 0) continue;
    context = {state().next_id++, device};
    return &context;
  }
  std::abort();
}

bool unsafe_call_forbidden() {
  bool forbidden = false;
  for (const auto& stream : state().streams) {
    const bool own = stream->thread == std::this_thread::get_id();
    const bool bites = (t_mode == kCaptureGlobal &&
                        (stream->capture == kCaptureGlobal || (own && stream->capture == kCaptureThreadLocal))) ||
                       (t_mode == kCaptureThreadLocal && own && stream->capture != kCaptureRelaxed);
    if (stream->capture < 0 || !bites) continue;
    stream->invalidated = true;
    forbidden = true;
  }
  return forbidden;
}

bool blocking_capture() {
  return std::any_of(state().streams.begin(), state().streams.end(),
                     [](const auto& stream) { return stream->blocking && stream->capture >= 0; });
}

Result enqueue(DriverStream handle, bool& captured) {
  captured = false;
  if (handle == nullptr) {
    if (!blocking_capture()) return kSuccess;
    for (const auto& stream : state().streams) stream->invalidated |= stream->blocking && stream->capture >= 0;
    return kStreamCaptureImplicit;
  }
  captured = stream_of(handle)->capture >= 0;
  return captured && stream_of(handle)->invalidated ? kCaptureInvalidated : kSuccess;
}

void State::reset(int count) {
  const std::lock_guard lock(mutex);
  devices = count;
  process = ::getpid();
  gone = false;
  failures.clear();
  hidden.clear();
  unknown_attributes.clear();
  capability = {9, 0};
  for (FakeContext& context : contexts) context.id = 0;
  primaries.clear();
  streams.clear();
  for (void* block : memory) std::free(block);
  memory.clear();
  load_count = unload_count = map_count = 0;
  ptx.clear();
  launch_log.clear();
  launch_log.reserve(1024);  // a test counts the allocations of a launch
  limit_log.clear();
  t_stack.clear();
  t_mode = kCaptureGlobal;
}

void State::fail(const char* function, int result) {
  const std::lock_guard lock(mutex);
  failures[function] = result;
}

Context State::create_context(int device) {
  const std::lock_guard lock(mutex);
  t_stack.push_back(new_context(device));
  return handle_of(t_stack.back());
}

void State::destroy_context(Context context) {
  const std::lock_guard lock(mutex);
  context_of(context)->id = 0;
  std::erase(t_stack, context_of(context));
}

std::vector<Context> State::stack() {
  std::vector<Context> handles;
  for (FakeContext* context : t_stack) handles.push_back(handle_of(context));
  return handles;
}

DriverStream State::blocking_stream() {
  const std::lock_guard lock(mutex);
  streams.push_back(std::make_unique<FakeStream>());
  streams.back()->blocking = true;
  return reinterpret_cast<DriverStream>(streams.back().get());
}

bool State::capture_valid(DriverStream stream) {
  const std::lock_guard lock(mutex);
  return stream_of(stream)->capture >= 0 && !stream_of(stream)->invalidated;
}

}  // namespace cubit::fake
