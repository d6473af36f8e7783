// Counts the allocations of this test program, because the hot path must not allocate.
#pragma once

namespace cubit::tests {

/// Counts allocations with operator new, in all threads, from construction to the end of the scope.
class CountAllocations {
 public:
  CountAllocations();
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  ~CountAllocations();
  int count() const;
};

}  // namespace cubit::tests
