// Counts what this test program allocates while it is asked to: the hot path must allocate nothing.
#pragma once

namespace cubit::tests {

/// Allocations by operator new, in all threads, from here to the end of the scope.
class CountAllocations {
 public:
  CountAllocations();
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  ~CountAllocations();
  int count() const;
};

}  // namespace cubit::tests
