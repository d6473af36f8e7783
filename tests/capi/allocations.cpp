// Replaces operator new and delete by versions that count allocations.
#include "tests/capi/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> g_counts{false};
std::atomic<int> g_allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (g_counts) ++g_allocations;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* const memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined, so that compilers do not pair the calls with built-in functions. Weak, because the ThreadSanitizer of
// Clang has operators of its own, and nothing is counted then.
[[gnu::noinline, gnu::weak]] void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 1); }
[[gnu::noinline, gnu::weak]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline, gnu::weak]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
[[gnu::noinline, gnu::weak]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline, gnu::weak]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline, gnu::weak]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline, gnu::weak]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace cubit::tests {

CountAllocations::CountAllocations() {
  g_allocations = 0;
  g_counts = true;
}
CountAllocations::~CountAllocations() { g_counts = false; }
int CountAllocations::count() const { return g_allocations; }

}  // namespace cubit::tests
