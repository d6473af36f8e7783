// The fake CUDA driver: memory, streams, captures, graphs, events.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/runtime_cuda/fake_state.hpp"

namespace cubit::fake {

Result cuMemAlloc(Address* memory, std::size_t bytes) {
  if (current() == nullptr) return kInvalidContext;
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  void* const block = std::malloc(bytes);
  state().memory.insert(block);
  *memory = reinterpret_cast<Address>(block);
  return kSuccess;
}
Result cuMemFree(Address memory) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (state().memory.erase(reinterpret_cast<void*>(memory)) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(memory));
  return kSuccess;
}
Result cuMemsetD8Async(Address memory, unsigned char value, std::size_t bytes, DriverStream) {
  if (current() == nullptr) return kInvalidContext;
  std::memset(reinterpret_cast<void*>(memory), value, bytes);
  return kSuccess;
}
Result cuMemcpyHtoDAsync(Address dst, const void* src, std::size_t bytes, DriverStream) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (current() == nullptr) return kInvalidContext;
  std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
  return kSuccess;
}
Result cuMemcpyDtoHAsync(void* dst, Address src, std::size_t bytes, DriverStream) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  if (current() == nullptr) return kInvalidContext;
  std::memcpy(dst, reinterpret_cast<void*>(src), bytes);
  return kSuccess;
}
Result cuStreamCreate(DriverStream* stream, unsigned flags) {
  if (current() == nullptr) return kInvalidContext;
  state().streams.push_back(std::make_unique<FakeStream>());
  state().streams.back()->blocking = (flags & kStreamNonBlocking) == 0;
  *stream = reinterpret_cast<DriverStream>(state().streams.back().get());
  return kSuccess;
}
Result cuStreamDestroy(DriverStream stream) {
  const auto gone = std::erase_if(state().streams, [&](const auto& known) { return known.get() == stream_of(stream); });
  return gone == 1 ? kSuccess : kInvalidHandle;
}
Result cuStreamSynchronize(DriverStream) {
  if (unsafe_call_forbidden()) return kCaptureUnsupported;
  return current() == nullptr ? kInvalidContext : kSuccess;
}
Result cuStreamIsCapturing(DriverStream stream, int* status) {
  if (current() == nullptr) return kInvalidContext;
  if (stream == nullptr && blocking_capture()) return kStreamCaptureImplicit;
  const bool capturing = stream != nullptr && stream_of(stream)->capture >= 0;
  *status = !capturing ? 0 : stream_of(stream)->invalidated ? 2 : 1;
  return kSuccess;
}
Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_mode);
  return kSuccess;
}
Result cuStreamBeginCapture(DriverStream stream, int mode) {
  if (stream == nullptr) return kCaptureUnsupported;
  stream_of(stream)->capture = mode;
  stream_of(stream)->invalidated = false;
  stream_of(stream)->thread = std::this_thread::get_id();
  return kSuccess;
}
Result cuStreamEndCapture(DriverStream stream, DriverGraph* graph) {
  if (stream_of(stream)->capture < 0) return kNotCaptured;
  stream_of(stream)->capture = -1;
  *graph = nullptr;
  if (stream_of(stream)->invalidated) return kCaptureInvalidated;
  *graph = static_cast<DriverGraph>(std::malloc(1));
  return kSuccess;
}
Result cuGraphInstantiateWithFlags(GraphExec* executable, DriverGraph, unsigned long long) {
  *executable = static_cast<GraphExec>(std::malloc(1));
  return kSuccess;
}
Result cuGraphLaunch(GraphExec, DriverStream) { return kSuccess; }
Result cuGraphDestroy(DriverGraph graph) { return std::free(graph), kSuccess; }
Result cuGraphExecDestroy(GraphExec executable) { return std::free(executable), kSuccess; }
Result cuEventCreate(Event* event, unsigned) {
  *event = static_cast<Event>(std::malloc(1));
  return current() == nullptr ? kInvalidContext : kSuccess;
}
Result cuEventDestroy(Event event) { return std::free(event), kSuccess; }
Result cuEventRecord(Event, DriverStream) { return kSuccess; }
Result cuEventSynchronize(Event) { return kSuccess; }
Result cuEventElapsedTime(float* milliseconds, Event, Event) {
  *milliseconds = 1.5F;
  return kSuccess;
}

}  // namespace cubit::fake
