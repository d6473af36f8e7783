// Instructions that run in C++: operands in the frame's source slots, results in its result slots, only the lanes of
// the mask. What a Site's fields mean is said at each.
#pragma once

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/watch/request.hpp"

namespace cubit::runtime::cpu::helpers {

// memory.cpp. Source 0 is the address; `offset` is added to it.
void load(Warp& warp, Mask mask, const Site& site);   ///< results 0 … count-1
void store(Warp& warp, Mask mask, const Site& site);  ///< sources 1 … count
/// Bytes [address, address + bytes) of a state space as host memory; null after warp.fail().
std::byte* resolve(Warp& warp, const Site& site, ptx::Space space, bool generic, std::uint64_t address, int bytes,
                   int lane);
/// Of a generic address; takes the window off it.
ptx::Space space_of(std::uint64_t& address);
/// A shared address as the watchers have it: with the rank of its block.
std::uint64_t watched_address(const Warp& warp, std::uint64_t address);
/// Tells the watchers of an access that has been done: `bytes` per lane at the addresses of source 0.
void watch_request(Warp& warp, Mask mask, const Site& site, RequestKind kind, int bytes);
/// The same of more bytes, at any alignment.
std::byte* resolve_range(Warp& warp, const Site& site, ptx::Space space, bool generic, std::uint64_t address,
                         std::uint64_t bytes, int lane);
void copy_async(Warp& warp, Mask mask, const Site& site);  ///< sources: shared, global, bytes to read; `bytes` in all
void commit_copies(Warp& warp, Mask mask, const Site& site);
void fence(Warp& warp, Mask mask, const Site& site);
void wait_copies(Warp& warp, Mask mask, const Site& site);  ///< `kind` groups may be unfinished; -1: nothing may
/// Performs the lane's cp.async whose serial number is below `serial`.
void finish_copies(Warp& warp, const Site& site, int lane, std::uint64_t serial);

// atomics.cpp. Sources: address, operand, swap. `flag`: there is a result.
enum class AtomicKind { add, min, max, bit_and, bit_or, bit_xor, exchange, compare, increment, decrement };
void atomic(Warp& warp, Mask mask, const Site& site);
/// Applies the site's operation to elements of its type.
void reduce_range(const Site& site, std::byte* dst, const std::byte* src, std::size_t bytes);

// matrix.cpp. `table`: 16-bit (row, column) of each lane's values; see each.
void load_matrices(Warp& warp, Mask mask, const Site& site);
void store_matrices(Warp& warp, Mask mask, const Site& site);
void transpose_matrix(Warp& warp, Mask mask, const Site& site);
void multiply_matrices(Warp& warp, Mask mask, const Site& site);

// warpgroup.cpp: what wgmma does in one warp.
inline constexpr int kWarpgroupDepth = 16;  ///< k of 16-bit factors
enum WarpgroupOption : int { kDescriptorA = 1, kTransposeA = 2, kTransposeB = 4, kNegateA = 8, kNegateB = 16 };
/// Eight columns from `kind` on, of `count`. Sources: four registers or a descriptor of A, kDescriptorOfB,
/// kFirstAccumulator …, kScaleD. `form`: of WarpgroupOption; `from`: format of A and B; `to`: the architecture.
/// Table: where each lane's values of A and of the accumulators lie, row-major.
void multiply_warpgroup(Warp& warp, Mask mask, const Site& site);
inline constexpr int kDescriptorOfB = 4;
inline constexpr int kFirstAccumulator = 5;
inline constexpr int kScaleD = 9;
/// The asynchronous part: what an instruction has started. Table: the accumulators' numbers, `result_bytes` in all.
void start_warpgroup(Warp& warp, Mask mask, const Site& site);
void fence_warpgroup(Warp& warp, Mask mask, const Site& site);
void commit_warpgroup(Warp& warp, Mask mask, const Site& site);
void wait_warpgroup(Warp& warp, Mask mask, const Site& site);  ///< `kind` groups may be unfinished
/// Another instruction that uses accumulators. Table: `count` that it reads, then those that it writes. `flag`: it
/// copies the first to the last, which may be read no sooner.
void use_accumulators(Warp& warp, Mask mask, const Site& site);

// lanes.cpp
enum class ShuffleKind { up, down, butterfly, index };
void shuffle(Warp& warp, Mask mask, const Site& site);  ///< sources: value, lane, clamp, members; results: value, bit
enum class VoteKind { all, any, uniform, ballot };
void vote(Warp& warp, Mask mask, const Site& site);  ///< sources: predicate, members
enum class MatchKind { any, all };
void match(Warp& warp, Mask mask, const Site& site);         ///< sources: value, members; results: mask, predicate
void reduce(Warp& warp, Mask mask, const Site& site);        ///< sources: value, members; kind: AtomicKind
void warp_barrier(Warp& warp, Mask mask, const Site& site);  ///< source: members
void elect(Warp& warp, Mask mask, const Site& site);         ///< source: members; results: lane, predicate
void trap(Warp& warp, Mask mask, const Site& site);

// timer.cpp
void read_timer(Warp& warp, Mask mask, const Site& site);  ///< result: nanoseconds, 64 bits

// barriers.cpp. Sources of barrier: its number, threads (0: all), and the predicate of a vote, whose result is a count
// or a predicate.
enum class BarrierKind { sync, arrive, count, all, any };
void barrier(Warp& warp, Mask mask, const Site& site);
void arrive_at_cluster(Warp& warp, Mask mask, const Site& site);
void wait_for_cluster(Warp& warp, Mask mask, const Site& site);
void map_address(Warp& warp, Mask mask, const Site& site);      ///< sources: address, rank
void rank_of_address(Warp& warp, Mask mask, const Site& site);  ///< source: address

// mbarrier.cpp. Source 0: the address.
void init_mbarrier(Warp& warp, Mask mask, const Site& site);  ///< source 1: arrivals; `flag`: invalidates it
enum class MbarrierKind { arrive, drop, expect, complete };
/// Sources 1 and 2: arrivals, bytes; `flag`: .noComplete. Result: the object as it was, which is the phase's token.
void change_mbarrier(Warp& warp, Mask mask, const Site& site);
void pending_count(Warp& warp, Mask mask, const Site& site);  ///< source 0: a token
/// Source 1: a token or a parity. Result: whether that phase is over; `flag`: the warp waits for it.
void wait_for_phase(Warp& warp, Mask mask, const Site& site);
void arrive_after_copies(Warp& warp, Mask mask, const Site& site);  ///< `flag`: .noinc

// bulk.cpp
enum class BulkForm { from_global, multicast, between_blocks, to_global };
/// Sources: target, origin, bytes, mbarrier, blocks. `form`: a BulkForm; `flag`: reduces with `kind`.
void copy_bulk(Warp& warp, Mask mask, const Site& site);
void prefetch_bulk(Warp& warp, Mask mask, const Site& site);  ///< sources: origin, bytes; only checks them
/// Sources: target, mbarrier, values. `flag`: reduces with `kind`.
void send_value(Warp& warp, Mask mask, const Site& site);
void commit_bulk(Warp& warp, Mask mask, const Site& site);
void wait_bulk(Warp& warp, Mask mask, const Site& site);  ///< `kind` groups may be unfinished; `flag`: but read

// tensor.cpp. A map's address is a generic one. Sources kFirstCoordinate …: coordinates, as many as `count`.
inline constexpr int kFirstCoordinate = 5;
/// Sources: shared memory, map, -, mbarrier, blocks. `form`: a BulkForm, but between_blocks.
void copy_tensor(Warp& warp, Mask mask, const Site& site);
void prefetch_tensor(Warp& warp, Mask mask, const Site& site);  ///< source 1: map; only checks what would be read
void prefetch_map(Warp& warp, Mask mask, const Site& site);     ///< source 0: map; only checks it

// arithmetic.cpp
enum class IntegerKind { divide, remainder, permute, find_leading, dot4, dot2, differences };
void integer(Warp& warp, Mask mask, const Site& site);
enum class HalfKind { add, subtract, multiply, fused, minimum, maximum, negate, absolute };
/// `from`: format; `count`: 2 if packed; `flag`: .NaN; `integral`: .ftz; `is_signed`: .relu; `form`: .xorsign.abs if
/// not 0.
void half_arithmetic(Warp& warp, Mask mask, const Site& site);
enum class FunctionKind { ex2, lg2, sine, cosine, tanh, rsqrt, sqrt, rcp };
void function(Warp& warp, Mask mask, const Site& site);  ///< `from`: format; flag: flush subnormals
enum class RoundedKind { add, subtract, multiply, divide, fused, reciprocal, root };
void rounded(Warp& warp, Mask mask, const Site& site);  ///< `form`: a Rounding, towards zero, down or up
void convert(Warp& warp, Mask mask, const Site& site);

}  // namespace cubit::runtime::cpu::helpers
