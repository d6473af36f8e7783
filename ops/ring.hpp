// How many stages a ring of copies in shared memory has, and how many blocks with one an SM takes.
#pragma once

#include <algorithm>

namespace cubit::ops {

struct Ring {
  int stages = 0;  ///< 0: not even one block fits
  int blocks_per_sm = 0;
  int shared_memory = 0;  ///< of a block
};

/// Enough bytes in flight first, then more blocks, then fewer stages; a block has all stages but one in flight.
/// `stage_bytes`: of a block. `shared_memory(stages)`: of a block; `blocks(shared memory)`: that an SM takes.
template <class SharedMemory, class Blocks>
Ring choose_ring(int fewest_stages, int most_stages, int stage_bytes, int enough_bytes,
                 const SharedMemory& shared_memory, const Blocks& blocks) {
  Ring best;
  int best_in_flight = -1;
  for (int stages = fewest_stages; stages <= most_stages; ++stages) {
    const int shared = shared_memory(stages);
    const int resident = blocks(shared);
    const int in_flight = std::min(enough_bytes, resident * (stages - 1) * stage_bytes);
    if (resident == 0 || in_flight < best_in_flight) continue;
    if (in_flight == best_in_flight && resident <= best.blocks_per_sm) continue;
    best_in_flight = in_flight;
    best = {stages, resident, shared};
  }
  return best;
}

}  // namespace cubit::ops
