// Executes tensor-core instructions of a warp with the fragment tables of codegen. PTX ISA, "ldmatrix", "stmatrix",
// "movmatrix", "mma".
//
// Integer products are exact modulo 2^32, or saturated. Floating-point products of 16-bit and 8-bit formats and of tf32
// are summed as a tensor core does; see tensor_core.hpp. Double precision is a chain of fused multiply-adds in the
// order of k.
#include "runtime/cpu/helpers/matrix.hpp"

#include <array>
#include <cmath>

#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/arithmetic/tensor_core.hpp"
#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

constexpr int kRowBytes = 16;

/// Returns the 64-bit value `index` of `lane`, from source `slot` on.
std::uint64_t wide_element(Warp& warp, int slot, int lane, int index) {
  return source<std::uint64_t>(warp, slot + index)[lane];
}

/// The lanes that supply row addresses.
Mask row_lanes(const Site& site) { return site.count == 4 ? ~Mask{0} : (Mask{1} << (8 * site.count)) - 1; }

/// Converts the lanes' row addresses to host pointers. A pointer is nullptr if an address is bad.
bool resolve_rows(Warp& warp, const Site& site, std::array<std::byte*, kLanes>& rows) {
  for (int lane = 0; lane < 8 * site.count; ++lane) {
    const std::uint64_t address = source<std::uint64_t>(warp, 0)[lane] + static_cast<std::uint64_t>(site.offset);
    rows[static_cast<std::size_t>(lane)] = resolve(warp, site, site.space, site.generic, address, kRowBytes, lane);
    if (rows[static_cast<std::size_t>(lane)] == nullptr) return false;
  }
  return true;
}

/// Reads matrix `operand` (0: A, 1: B, 2: C) through its part of the table.
template <class T, class Convert>
void gather(Warp& warp, const std::uint16_t*& table, int& slot, int elements, int bits, T* dst, Convert convert) {
  const int values = elements / kLanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < values; ++i)
      dst[*table++] = convert(bits == 64 ? wide_element(warp, slot, lane, i) : element(warp, slot, lane, i, bits));
  }
  slot += bits == 64 ? values : values * bits / 32;
}

constexpr int kMaxM = 16;
constexpr int kMaxN = 8;
constexpr int kMaxK = 64;

template <class T>
struct Matrices {
  std::array<T, kMaxM * kMaxK> a;
  std::array<T, kMaxN * kMaxK> b;
  std::array<T, kMaxM * kMaxN> c;
};

/// Gathers the operands, calls `product`, which turns C into the result, and distributes the result.
template <class T, class DecodeA, class DecodeB, class DecodeC, class Product, class Finish>
void multiply(Warp& warp, const Site& site, DecodeA decode_a, DecodeB decode_b, DecodeC decode_c, Product product,
              Finish finish) {
  const int m = site.result_bytes;
  const int k = site.bytes;
  const auto bits = [](int format) { return facts(static_cast<Format>(format)).bits; };
  Matrices<T> matrices;
  const std::uint16_t* table = site.table.data();
  int slot = 0;
  gather(warp, table, slot, m * k, bits(site.from), matrices.a.data(), decode_a);
  gather(warp, table, slot, k * kMaxN, bits(site.kind), matrices.b.data(), decode_b);
  const std::uint16_t* const result_table = table;
  gather(warp, table, slot, m * kMaxN, bits(site.to), matrices.c.data(), decode_c);
  product(matrices);
  const int result_bits = bits(site.to);
  const int values = m * kMaxN / kLanes;
  table = result_table;
  if (result_bits == 64) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int r = 0; r < values; ++r) result<T>(warp, r).set(lane, matrices.c[*table++]);
    }
    return;
  }
  const int per_register = 32 / result_bits;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < values / per_register; ++r) {
      std::uint32_t word = 0;
      for (int i = 0; i < per_register; ++i) word |= finish(matrices.c[*table++]) << (i * result_bits);
      result<std::uint32_t>(warp, r).set(lane, word);
    }
  }
}

template <class T, class Step>
void sum_in_order(Matrices<T>& matrices, int m, int k, Step step) {
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < kMaxN; ++column) {
      T& sum = matrices.c[static_cast<std::size_t>(row * kMaxN + column)];
      const T* const a = matrices.a.data() + row * k;
      const T* const b = matrices.b.data() + column * k;
      for (int i = 0; i < k; ++i) sum = step(a[i], b[i], sum);
    }
  }
}

}  // namespace

bool whole_warp(Warp& warp, Mask mask, const Site& site) {
  if (mask == 0) return false;
  if (mask == ~Mask{0}) return true;
  warp.fail(site, __builtin_ctz(mask), "an instruction of the whole warp is executed by some of its lanes");
  return false;
}

void load_matrices(Warp& warp, Mask mask, const Site& site) {
  std::array<std::byte*, kLanes> rows{};
  if (!whole_warp(warp, mask, site) || !resolve_rows(warp, site, rows)) return;
  const std::uint16_t* table = site.table.data();
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < site.count; ++r) {
      std::uint32_t word = 0;
      for (int half = 0; half < 2; ++half, ++table) {
        std::uint16_t value = 0;
        std::memcpy(&value, rows[*table / 8] + *table % 8 * 2, sizeof value);
        word |= static_cast<std::uint32_t>(value) << (16 * half);
      }
      result<std::uint32_t>(warp, r).set(lane, word);
    }
  }
  if (warp.watch != nullptr) watch_request(warp, row_lanes(site), site, RequestKind::read, kRowBytes);
}

void store_matrices(Warp& warp, Mask mask, const Site& site) {
  std::array<std::byte*, kLanes> rows{};
  if (!whole_warp(warp, mask, site) || !resolve_rows(warp, site, rows)) return;
  ++warp.cta->cluster->changes;
  const std::uint16_t* table = site.table.data();
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 2 * site.count; ++i, ++table) {
      const auto value = static_cast<std::uint16_t>(element(warp, 1, lane, i, 16));
      std::memcpy(rows[*table / 8] + *table % 8 * 2, &value, sizeof value);
    }
  }
  if (warp.watch != nullptr) watch_request(warp, row_lanes(site), site, RequestKind::write, kRowBytes);
}

void transpose_matrix(Warp& warp, Mask mask, const Site& site) {
  if (!whole_warp(warp, mask, site)) return;
  std::array<std::uint32_t, 64> matrix{};
  const std::uint16_t* table = site.table.data();
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 2; ++i) matrix[*table++] = element(warp, 0, lane, i, 16);
  }
  for (int lane = 0; lane < kLanes; ++lane, table += 2) {
    result<std::uint32_t>(warp).set(lane, matrix[table[0]] | matrix[table[1]] << 16);
  }
}

void multiply_matrices(Warp& warp, Mask mask, const Site& site) {
  if (!whole_warp(warp, mask, site)) return;
  const auto a = static_cast<Format>(site.from);
  const auto b = static_cast<Format>(site.kind);
  const auto c = static_cast<Format>(site.to);
  const int m = site.result_bytes;
  const int k = site.bytes;
  if (c == Format::f64) {
    const auto number = [](std::uint64_t bits) { return decode(Format::f64, bits); };
    const auto fused = [](double x, double y, double sum) { return std::fma(x, y, sum); };
    return multiply<double>(
        warp, site, number, number, number, [&](Matrices<double>& matrices) { sum_in_order(matrices, m, k, fused); },
        [](double) { return 0U; });
  }
  if (is_integer(a)) {
    const auto integer = [](Format format) {
      return [format](std::uint64_t bits) { return static_cast<std::int64_t>(decode(format, bits)); };
    };
    const auto added = [](std::int64_t x, std::int64_t y, std::int64_t sum) { return sum + x * y; };
    return multiply<std::int64_t>(
        warp, site, integer(a), integer(b), integer(c),
        [&](Matrices<std::int64_t>& matrices) { sum_in_order(matrices, m, k, added); },
        [&](std::int64_t value) { return static_cast<std::uint32_t>(site.flag ? saturated(value) : value); });
  }
  const auto bits = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  multiply<std::uint32_t>(
      warp, site, bits, bits, bits,
      [&](Matrices<std::uint32_t>& matrices) {
        multiply_add(tensor_core(site.form, a), {a, b, c, m, k}, matrices.a.data(), matrices.b.data(),
                     matrices.c.data());
      },
      [](std::uint32_t value) { return value; });
}

}  // namespace cubit::runtime::cpu::helpers
