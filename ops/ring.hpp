// Chooses the number of stages of a copy pipeline in shared memory, and with it how many blocks an SM holds.
#pragma once

#include <algorithm>

namespace cubit::ops {

struct Ring {
  int stages = 0;  ///< 0: not even one block fits
  int blocks_per_sm = 0;
  int shared_memory = 0;  ///< bytes of a block
};

/// Chooses by three aims, in this order: enough bytes in flight on an SM, more blocks, fewer stages. A block has all
/// stages but one in flight. `stage_bytes`: bytes of one stage. `shared_memory(stages)`: bytes of a block's shared
/// memory. `blocks(shared memory)`: blocks that an SM holds.
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
