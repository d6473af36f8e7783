// Helpers: C++ functions that execute PTX instructions. A helper reads operands from the frame's source slots and
// writes results to its result slots, only for the lanes of `mask`. The comment at each helper says which fields of
// Site it uses.
#pragma once

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/watch/request.hpp"

namespace cubit::runtime::cpu::helpers {

// memory.cpp. Source 0 is the address, to which `offset` is added.
void load(Warp& warp, Mask mask, const Site& site);   ///< results 0 … count - 1
void store(Warp& warp, Mask mask, const Site& site);  ///< sources 1 … count
/// Converts bytes [address, address + bytes) of a state space to a host pointer. Returns nullptr after warp.fail().
std::byte* resolve(Warp& warp, const Site& site, ptx::Space space, bool generic, std::uint64_t address, int bytes,
                   int lane);
/// Returns the state space of a generic address, and removes the window from the address.
ptx::Space space_of(std::uint64_t& address);
/// The form in which the watchers know a shared address: with the rank of its block.
std::uint64_t watched_address(const Warp& warp, std::uint64_t address);
/// Reports an access to the watchers after it was done: `bytes` per lane at the addresses in source 0.
void watch_request(Warp& warp, Mask mask, const Site& site, RequestKind kind, int bytes);
/// Like resolve(), for any number of bytes and any alignment.
std::byte* resolve_range(Warp& warp, const Site& site, ptx::Space space, bool generic, std::uint64_t address,
                         std::uint64_t bytes, int lane);
void copy_async(Warp& warp, Mask mask, const Site& site);  ///< sources: shared address, global address, bytes to read;
                                                           ///< `bytes` is the whole size
void commit_copies(Warp& warp, Mask mask, const Site& site);
void fence(Warp& warp, Mask mask, const Site& site);
void wait_copies(Warp& warp, Mask mask, const Site& site);  ///< `kind` groups may stay unfinished; -1: none
/// Performs the lane's cp.async with serial numbers below `serial`.
void finish_copies(Warp& warp, const Site& site, int lane, std::uint64_t serial);

// atomics.cpp. Sources: address, operand, swap value. `flag`: the instruction has a result.
enum class AtomicKind { add, min, max, bit_and, bit_or, bit_xor, exchange, compare, increment, decrement };
void atomic(Warp& warp, Mask mask, const Site& site);
/// Applies the site's reduction to each element of a range.
void reduce_range(const Site& site, std::byte* dst, const std::byte* src, std::size_t bytes);

// matrix.cpp. `table` holds (row, column) of each lane's values as 16-bit numbers; the lowering of each instruction
// says how.
void load_matrices(Warp& warp, Mask mask, const Site& site);
void store_matrices(Warp& warp, Mask mask, const Site& site);
void transpose_matrix(Warp& warp, Mask mask, const Site& site);
void multiply_matrices(Warp& warp, Mask mask, const Site& site);

// warpgroup.cpp: the share of one warp in wgmma.
enum WarpgroupOption : int { kDescriptorA = 1, kTransposeA = 2, kTransposeB = 4, kNegateA = 8, kNegateB = 16 };
/// Computes eight columns from `kind` on, of `count`. Sources: four registers or a descriptor of A, kDescriptorOfB,
/// kFirstAccumulator …, kScaleD. `form`: WarpgroupOption flags; `from`: format of A and B; `bytes`: bytes of an element
/// of A and B; `saturate`: clamp integer sums. `table`: positions of each lane's values of A and of the accumulators,
/// row-major.
void multiply_warpgroup(Warp& warp, Mask mask, const Site& site);
inline constexpr int kDescriptorOfB = 4;
inline constexpr int kFirstAccumulator = 5;
inline constexpr int kScaleD = 9;
/// The asynchronous part of wgmma: records what an instruction starts. `table`: numbers of the accumulators;
/// `result_bytes`: how many.
void start_warpgroup(Warp& warp, Mask mask, const Site& site);
void fence_warpgroup(Warp& warp, Mask mask, const Site& site);
void commit_warpgroup(Warp& warp, Mask mask, const Site& site);
void wait_warpgroup(Warp& warp, Mask mask, const Site& site);  ///< `kind` groups may stay unfinished
/// Another instruction that uses accumulators. `table`: `count` accumulators that the instruction reads, then the
/// accumulators that it writes. `flag`: the instruction copies the first to the last, which then becomes readable no
/// sooner than the first.
void use_accumulators(Warp& warp, Mask mask, const Site& site);

// lanes.cpp.
enum class ShuffleKind { up, down, butterfly, index };
void shuffle(Warp& warp, Mask mask, const Site& site);  ///< sources: value, lane, clamp, members; results: value, bit
enum class VoteKind { all, any, uniform, ballot };
void vote(Warp& warp, Mask mask, const Site& site);  ///< sources: predicate, members
enum class MatchKind { any, all };
void match(Warp& warp, Mask mask, const Site& site);         ///< sources: value, members; results: mask, predicate
void reduce(Warp& warp, Mask mask, const Site& site);        ///< sources: value, members; `kind`: an AtomicKind
void warp_barrier(Warp& warp, Mask mask, const Site& site);  ///< source: members
void elect(Warp& warp, Mask mask, const Site& site);         ///< source: members; results: lane, predicate
void trap(Warp& warp, Mask mask, const Site& site);

// timer.cpp.
void read_timer(Warp& warp, Mask mask, const Site& site);  ///< result: nanoseconds in 64 bits

// barriers.cpp. Sources of barrier(): the barrier's number, the number of threads (0: all), and the predicate of a
// vote. The result of a vote is a count or a predicate.
enum class BarrierKind { sync, arrive, count, all, any };
void barrier(Warp& warp, Mask mask, const Site& site);
void arrive_at_cluster(Warp& warp, Mask mask, const Site& site);
void wait_for_cluster(Warp& warp, Mask mask, const Site& site);
void map_address(Warp& warp, Mask mask, const Site& site);      ///< sources: address, rank
void rank_of_address(Warp& warp, Mask mask, const Site& site);  ///< source: address

// mbarrier.cpp. Source 0 is the address.
void init_mbarrier(Warp& warp, Mask mask, const Site& site);  ///< source 1: arrivals; `flag`: invalidate the object
enum class MbarrierKind { arrive, drop, expect, complete };
/// Sources 1 and 2: arrivals and bytes; `flag`: .noComplete. Result: the previous object, which serves as the phase's
/// token.
void change_mbarrier(Warp& warp, Mask mask, const Site& site);
void pending_count(Warp& warp, Mask mask, const Site& site);  ///< source 0: a token
/// Source 1: a token or a parity. Result: whether that phase has ended. `flag`: the warp waits for the phase.
void wait_for_phase(Warp& warp, Mask mask, const Site& site);
void arrive_after_copies(Warp& warp, Mask mask, const Site& site);  ///< `flag`: .noinc

// bulk.cpp.
enum class BulkForm { from_global, multicast, between_blocks, to_global };
/// Sources: destination, source, bytes, mbarrier, blocks. `form`: a BulkForm; `flag`: reduce with the operation `kind`.
void copy_bulk(Warp& warp, Mask mask, const Site& site);
void prefetch_bulk(Warp& warp, Mask mask, const Site& site);  ///< sources: address, bytes; only checks the range
/// Sources: destination, mbarrier, values. `flag`: reduce with the operation `kind`.
void send_value(Warp& warp, Mask mask, const Site& site);
void commit_bulk(Warp& warp, Mask mask, const Site& site);
void wait_bulk(Warp& warp, Mask mask, const Site& site);  ///< `kind` groups may stay unfinished; `flag`: wait for the
                                                          ///< reads only

// tensor.cpp. The address of a map is generic. Sources kFirstCoordinate …: `count` coordinates.
inline constexpr int kFirstCoordinate = 5;
/// Sources: shared address, map, unused, mbarrier, blocks. `form`: a BulkForm except between_blocks.
void copy_tensor(Warp& warp, Mask mask, const Site& site);
void prefetch_tensor(Warp& warp, Mask mask, const Site& site);  ///< source 1: map; only checks what a copy would read
void prefetch_map(Warp& warp, Mask mask, const Site& site);     ///< source 0: map; only checks the map

// arithmetic.cpp.
enum class IntegerKind { divide, remainder, permute, find_leading, dot4, dot2, differences };
void integer(Warp& warp, Mask mask, const Site& site);
enum class HalfKind { add, subtract, multiply, fused, minimum, maximum, negate, absolute };
/// `from`: format; `count`: 2 for packed halves; `flag`: .NaN; `integral`: .ftz; `is_signed`: .relu; `form`:
/// .xorsign.abs if not 0.
void half_arithmetic(Warp& warp, Mask mask, const Site& site);
enum class FunctionKind { ex2, lg2, sine, cosine, tanh, rsqrt, sqrt, rcp };
void function(Warp& warp, Mask mask, const Site& site);  ///< `from`: format; `flag`: flush subnormals
enum class RoundedKind { add, subtract, multiply, divide, fused, reciprocal, root };
void rounded(Warp& warp, Mask mask, const Site& site);  ///< `form`: a Rounding, which is zero, down or up
void convert(Warp& warp, Mask mask, const Site& site);

}  // namespace cubit::runtime::cpu::helpers
