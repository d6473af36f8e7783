// Executes atom and red on host memory, one lane after the other. PTX ISA, "atom", "red".
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

template <class Integer>
Integer combined(AtomicKind kind, Integer old, Integer value, Integer swap) {
  using Unsigned = std::make_unsigned_t<Integer>;
  switch (kind) {
    case AtomicKind::add:
      return static_cast<Integer>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
    case AtomicKind::min:
      return std::min(old, value);
    case AtomicKind::max:
      return std::max(old, value);
    case AtomicKind::bit_and:
      return old & value;
    case AtomicKind::bit_or:
      return old | value;
    case AtomicKind::bit_xor:
      return old ^ value;
    case AtomicKind::exchange:
      return value;
    case AtomicKind::compare:
      return old == value ? swap : old;
    case AtomicKind::increment:
      return static_cast<Unsigned>(old) >= static_cast<Unsigned>(value) ? Integer{0} : static_cast<Integer>(old + 1);
    case AtomicKind::decrement:
      return old == 0 || static_cast<Unsigned>(old) > static_cast<Unsigned>(value) ? value
                                                                                   : static_cast<Integer>(old - 1);
  }
  return old;
}

bool is_global(const Site& site, std::uint64_t address) {
  return (site.generic ? space_of(address) : site.space) == ptx::Space::global;
}

/// In global memory, subnormal operands and results are flushed to zeros of the same sign. PTX ISA, "atom".
float flushed(float value) {
  return std::abs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
}
std::uint32_t flushed_sum(std::uint32_t old, std::uint32_t value) {
  const float sum = flushed(flushed(std::bit_cast<float>(old)) + flushed(std::bit_cast<float>(value)));
  return std::isnan(sum) ? 0x7fffffff : std::bit_cast<std::uint32_t>(sum);
}

/// Adds each half of f16x2 and bf16x2 separately.
std::uint64_t float_sum(const Site& site, std::uint64_t old, std::uint64_t value) {
  const auto format = static_cast<Format>(site.from);
  const int bits = facts(format).bits;
  const std::uint64_t ones = ~0ULL >> (64 - bits);
  std::uint64_t sum = 0;
  for (int i = 0; i < site.count; ++i) {
    const double exact =
        add_to_odd(decode(format, old >> (bits * i) & ones), decode(format, value >> (bits * i) & ones));
    sum |= encode(format, exact, Rounding::nearest) << (bits * i);
  }
  return sum;
}

template <class Unsigned>
Unsigned changed(const Site& site, Unsigned old, Unsigned value, Unsigned swap) {
  const auto kind = static_cast<AtomicKind>(site.kind);
  if (site.from >= 0 && kind == AtomicKind::add) {
    if (sizeof(Unsigned) == 8) {
      double sum[2];
      std::memcpy(sum, &old, sizeof old);
      std::memcpy(sum + 1, &value, sizeof value);
      sum[0] += sum[1];
      std::memcpy(&old, sum, sizeof old);
      return old;
    }
    return static_cast<Unsigned>(float_sum(site, old, value));
  }
  if (!site.is_signed) return combined(kind, old, value, swap);
  using Signed = std::make_signed_t<Unsigned>;
  return static_cast<Unsigned>(
      combined(kind, static_cast<Signed>(old), static_cast<Signed>(value), static_cast<Signed>(swap)));
}

/// Returns the previous value.
template <class Unsigned>
Unsigned exchange(const Site& site, std::byte* place, Unsigned value, Unsigned swap, Unsigned& now,
                  bool flushes = false) {
  std::atomic_ref<Unsigned> memory(*reinterpret_cast<Unsigned*>(place));
  Unsigned old = memory.load();
  do {
    now = flushes
              ? static_cast<Unsigned>(flushed_sum(static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(value)))
              : changed(site, old, value, swap);
  } while (!memory.compare_exchange_weak(old, now));
  return old;
}

template <class Unsigned>
void reduce_elements(const Site& site, std::byte* dst, const std::byte* src, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(Unsigned)) {
    Unsigned value{};
    Unsigned now{};
    std::memcpy(&value, src + i, sizeof value);
    exchange(site, dst + i, value, Unsigned{}, now);
  }
}

template <class Unsigned>
void atomic_lanes(Warp& warp, Mask mask, const Site& site) {
  const bool is_single_sum =
      site.from == static_cast<int>(Format::f32) && static_cast<AtomicKind>(site.kind) == AtomicKind::add;
  for_lanes(mask, [&](int lane) {
    const std::uint64_t address = source<std::uint64_t>(warp, 0)[lane] + static_cast<std::uint64_t>(site.offset);
    std::byte* const place = resolve(warp, site, site.space, site.generic, address, sizeof(Unsigned), lane);
    if (place == nullptr) return;
    Unsigned now{};
    const bool flushes = is_single_sum && is_global(site, address);
    const Unsigned old =
        exchange(site, place, source<Unsigned>(warp, 1)[lane], source<Unsigned>(warp, 2)[lane], now, flushes);
    if (now != old) ++warp.cta->cluster->changes;
    result<Unsigned>(warp).set(lane, old);
  });
  if (warp.watch != nullptr) watch_request(warp, mask, site, RequestKind::atomic, sizeof(Unsigned));
}

}  // namespace

void reduce_range(const Site& site, std::byte* dst, const std::byte* src, std::size_t bytes) {
  if (site.bytes == 2) return reduce_elements<std::uint16_t>(site, dst, src, bytes);
  if (site.bytes == 4) return reduce_elements<std::uint32_t>(site, dst, src, bytes);
  reduce_elements<std::uint64_t>(site, dst, src, bytes);
}

void atomic(Warp& warp, Mask mask, const Site& site) {
  if (site.bytes == 2) return atomic_lanes<std::uint16_t>(warp, mask, site);
  if (site.bytes == 4) return atomic_lanes<std::uint32_t>(warp, mask, site);
  atomic_lanes<std::uint64_t>(warp, mask, site);
}

}  // namespace cubit::runtime::cpu::helpers
