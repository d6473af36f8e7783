// The fragment tables. Each table names the PTX ISA section that it states.
//
// The sections use groupID = lane >> 2 (lane bits 2, 3, 4) and threadID_in_group = lane % 4 (lane bits 0, 1). Let e be
// the number of elements in one 32-bit register of an operand. A lane holds e neighbours along k, and the four lanes of
// a group hold 4e. Further registers continue 8 rows below (A, C) or 4e further along k.
#include "codegen/fragments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

template <std::size_t Count>
using Bits = std::array<Element, Count>;

// Lane bits of A and C: threadID_in_group selects the columns, e at a time; groupID selects the row.
constexpr Bits<5> kRowLanes1 = {{{0, 1}, {0, 2}, {1, 0}, {2, 0}, {4, 0}}};
constexpr Bits<5> kRowLanes2 = {{{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}};
constexpr Bits<5> kRowLanes4 = {{{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}}};
constexpr Bits<5> kRowLanes8 = {{{0, 8}, {0, 16}, {1, 0}, {2, 0}, {4, 0}}};
// Lane bits of B: those of A and C with rows and columns exchanged.
constexpr Bits<5> kColumnLanes1 = {{{1, 0}, {2, 0}, {0, 1}, {0, 2}, {0, 4}}};
constexpr Bits<5> kColumnLanes2 = {{{2, 0}, {4, 0}, {0, 1}, {0, 2}, {0, 4}}};
constexpr Bits<5> kColumnLanes4 = {{{4, 0}, {8, 0}, {0, 1}, {0, 2}, {0, 4}}};
constexpr Bits<5> kColumnLanes8 = {{{8, 0}, {16, 0}, {0, 1}, {0, 2}, {0, 4}}};

// Value bits: first the position within a register, then the registers in order.
constexpr Bits<0> kOneValue = {};
constexpr Bits<1> kRow2 = {{{0, 1}}};
constexpr Bits<2> kRow4 = {{{0, 1}, {0, 2}}};
constexpr Bits<3> kRow8 = {{{0, 1}, {0, 2}, {0, 4}}};
constexpr Bits<1> kColumn2 = {{{1, 0}}};
constexpr Bits<2> kColumn4 = {{{1, 0}, {2, 0}}};
constexpr Bits<3> kColumn8 = {{{1, 0}, {2, 0}, {4, 0}}};

constexpr Bits<1> kA1Rows16 = {{{8, 0}}};
constexpr Bits<2> kA1Rows16K8 = {{{8, 0}, {0, 4}}};
constexpr Bits<3> kA1Rows16K16 = {{{8, 0}, {0, 4}, {0, 8}}};
constexpr Bits<2> kA2Rows16 = {{{0, 1}, {8, 0}}};
constexpr Bits<3> kA2Rows16K16 = {{{0, 1}, {8, 0}, {0, 8}}};
constexpr Bits<3> kA4Rows16 = {{{0, 1}, {0, 2}, {8, 0}}};
constexpr Bits<4> kA4Rows16K32 = {{{0, 1}, {0, 2}, {8, 0}, {0, 16}}};
constexpr Bits<4> kA8Rows16 = {{{0, 1}, {0, 2}, {0, 4}, {8, 0}}};
constexpr Bits<5> kA8Rows16K64 = {{{0, 1}, {0, 2}, {0, 4}, {8, 0}, {0, 32}}};
constexpr Bits<1> kB1K8 = {{{4, 0}}};
constexpr Bits<2> kB1K16 = {{{4, 0}, {8, 0}}};
constexpr Bits<2> kB2K16 = {{{1, 0}, {8, 0}}};
constexpr Bits<3> kB4K32 = {{{1, 0}, {2, 0}, {16, 0}}};
constexpr Bits<4> kB8K64 = {{{1, 0}, {2, 0}, {4, 0}, {32, 0}}};
// ldmatrix and stmatrix: register i belongs to matrix i, whose row addresses come from lanes 8i to 8i + 7.
constexpr Bits<2> kStack2 = {{{0, 1}, {8, 0}}};
constexpr Bits<3> kStack4 = {{{0, 1}, {8, 0}, {16, 0}}};
constexpr Bits<2> kStack2Transposed = {{{1, 0}, {8, 0}}};
constexpr Bits<3> kStack4Transposed = {{{1, 0}, {8, 0}, {16, 0}}};

template <std::size_t Count>
constexpr FragmentMap map(std::string_view name, std::string_view section, int rows, int columns, int element_bits,
                          const Bits<Count>& value_bits, const Bits<5>& lane_bits) {
  return {name, section, rows, columns, element_bits, 1 << Count, value_bits, lane_bits};
}

// Section titles of the PTX ISA.
constexpr std::string_view kM8N8K4 = "Matrix Fragments for mma.m8n8k4 with .f64 floating point type";
constexpr std::string_view kM8N8K16 = "Matrix Fragments for mma.m8n8k16";
constexpr std::string_view kM8N8K32 = "Matrix Fragments for mma.m8n8k32";
constexpr std::string_view kM16N8K4 = "Matrix Fragments for mma.m16n8k4";
constexpr std::string_view kM16N8K8 = "Matrix Fragments for mma.m16n8k8";
constexpr std::string_view kM16N8K16 = "Matrix Fragments for mma.m16n8k16 with floating point type";
constexpr std::string_view kM16N8K16Int = "Matrix Fragments for mma.m16n8k16 with integer type";
constexpr std::string_view kM16N8K32 = "Matrix Fragments for mma.m16n8k32";
constexpr std::string_view kM16N8K64 = "Matrix Fragments for mma.m16n8k64";
constexpr std::string_view kWgmma = "Register Fragments for wgmma.mma_async.m64nNk16";
constexpr std::string_view kWgmmaBytes = "Register Fragments for wgmma.mma_async.m64nNk32";
constexpr std::string_view kLdmatrix = "Warp-level matrix load instruction: ldmatrix";
constexpr std::string_view kStmatrix = "Warp-level matrix store instruction: stmatrix";
constexpr std::string_view kMovmatrix = "Warp-level matrix transpose instruction: movmatrix";

constexpr std::array kMaps = {
    // A is m × k, B is k × n, C (and D) is m × n. fp16 accumulators are packed in pairs into registers.
    map("mma.m8n8k4 A, 64-bit", kM8N8K4, 8, 4, 64, kOneValue, kRowLanes1),
    map("mma.m8n8k4 B, 64-bit", kM8N8K4, 4, 8, 64, kOneValue, kColumnLanes1),
    map("mma.m8n8k4 C, 64-bit", kM8N8K4, 8, 8, 64, kRow2, kRowLanes2),

    map("mma.m8n8k16 A, 8-bit", kM8N8K16, 8, 16, 8, kRow4, kRowLanes4),
    map("mma.m8n8k16 B, 8-bit", kM8N8K16, 16, 8, 8, kColumn4, kColumnLanes4),
    map("mma.m8n8k16 C, 32-bit", kM8N8K16, 8, 8, 32, kRow2, kRowLanes2),

    map("mma.m8n8k32 A, 4-bit", kM8N8K32, 8, 32, 4, kRow8, kRowLanes8),
    map("mma.m8n8k32 B, 4-bit", kM8N8K32, 32, 8, 4, kColumn8, kColumnLanes8),
    map("mma.m8n8k32 C, 32-bit", kM8N8K32, 8, 8, 32, kRow2, kRowLanes2),

    map("mma.m16n8k4 A, 32-bit", kM16N8K4, 16, 4, 32, kA1Rows16, kRowLanes1),
    map("mma.m16n8k4 B, 32-bit", kM16N8K4, 4, 8, 32, kOneValue, kColumnLanes1),
    map("mma.m16n8k4 C, 32-bit", kM16N8K4, 16, 8, 32, kA2Rows16, kRowLanes2),

    map("mma.m16n8k4 A, 64-bit", kM16N8K4, 16, 4, 64, kA1Rows16, kRowLanes1),
    map("mma.m16n8k4 B, 64-bit", kM16N8K4, 4, 8, 64, kOneValue, kColumnLanes1),
    map("mma.m16n8k4 C, 64-bit", kM16N8K4, 16, 8, 64, kA2Rows16, kRowLanes2),

    map("mma.m16n8k8 A, 16-bit", kM16N8K8, 16, 8, 16, kA2Rows16, kRowLanes2),
    map("mma.m16n8k8 A, 32-bit", kM16N8K8, 16, 8, 32, kA1Rows16K8, kRowLanes1),
    map("mma.m16n8k8 B, 16-bit", kM16N8K8, 8, 8, 16, kColumn2, kColumnLanes2),
    map("mma.m16n8k8 B, 32-bit", kM16N8K8, 8, 8, 32, kB1K8, kColumnLanes1),
    map("mma.m16n8k8 C, 16-bit", kM16N8K8, 16, 8, 16, kA2Rows16, kRowLanes2),
    map("mma.m16n8k8 C, 32-bit", kM16N8K8, 16, 8, 32, kA2Rows16, kRowLanes2),

    map("mma.m16n8k8 A, 64-bit", kM16N8K8, 16, 8, 64, kA1Rows16K8, kRowLanes1),
    map("mma.m16n8k8 B, 64-bit", kM16N8K8, 8, 8, 64, kB1K8, kColumnLanes1),
    map("mma.m16n8k8 C, 64-bit", kM16N8K8, 16, 8, 64, kA2Rows16, kRowLanes2),

    map("mma.m16n8k16 A, 16-bit", kM16N8K16, 16, 16, 16, kA2Rows16K16, kRowLanes2),
    map("mma.m16n8k16 A, 8-bit", kM16N8K16Int, 16, 16, 8, kA4Rows16, kRowLanes4),
    map("mma.m16n8k16 B, 16-bit", kM16N8K16, 16, 8, 16, kB2K16, kColumnLanes2),
    map("mma.m16n8k16 B, 8-bit", kM16N8K16Int, 16, 8, 8, kColumn4, kColumnLanes4),
    map("mma.m16n8k16 C, 16-bit", kM16N8K16, 16, 8, 16, kA2Rows16, kRowLanes2),
    map("mma.m16n8k16 C, 32-bit", kM16N8K16, 16, 8, 32, kA2Rows16, kRowLanes2),

    map("mma.m16n8k16 A, 64-bit", kM16N8K16, 16, 16, 64, kA1Rows16K16, kRowLanes1),
    map("mma.m16n8k16 B, 64-bit", kM16N8K16, 16, 8, 64, kB1K16, kColumnLanes1),
    map("mma.m16n8k16 C, 64-bit", kM16N8K16, 16, 8, 64, kA2Rows16, kRowLanes2),

    map("mma.m16n8k32 A, 8-bit", kM16N8K32, 16, 32, 8, kA4Rows16K32, kRowLanes4),
    map("mma.m16n8k32 A, 4-bit", kM16N8K32, 16, 32, 4, kA8Rows16, kRowLanes8),
    map("mma.m16n8k32 B, 8-bit", kM16N8K32, 32, 8, 8, kB4K32, kColumnLanes4),
    map("mma.m16n8k32 B, 4-bit", kM16N8K32, 32, 8, 4, kColumn8, kColumnLanes8),
    map("mma.m16n8k32 C, 16-bit", kM16N8K32, 16, 8, 16, kA2Rows16, kRowLanes2),
    map("mma.m16n8k32 C, 32-bit", kM16N8K32, 16, 8, 32, kA2Rows16, kRowLanes2),

    map("mma.m16n8k64 A, 4-bit", kM16N8K64, 16, 64, 4, kA8Rows16K64, kRowLanes8),
    map("mma.m16n8k64 B, 4-bit", kM16N8K64, 64, 8, 4, kB8K64, kColumnLanes8),
    map("mma.m16n8k64 C, 32-bit", kM16N8K64, 16, 8, 32, kA2Rows16, kRowLanes2),

    // The fragment of one warp: 16 of the 64 rows and eight of the N columns. See warpgroup_accumulator().
    map("wgmma.m64k16 A, 16-bit", kWgmma, 16, 16, 16, kA2Rows16K16, kRowLanes2),
    map("wgmma.m64k32 A, 8-bit", kWgmmaBytes, 16, 32, 8, kA4Rows16K32, kRowLanes4),
    map("wgmma.m64n8 D, 32-bit", kWgmma, 16, 8, 32, kA2Rows16, kRowLanes2),

    // row: the lane whose address names the 16-byte row in shared memory; column: the 16-bit element within that row.
    map("ldmatrix.x1", kLdmatrix, 8, 8, 16, kRow2, kRowLanes2),
    map("ldmatrix.x2", kLdmatrix, 16, 8, 16, kStack2, kRowLanes2),
    map("ldmatrix.x4", kLdmatrix, 32, 8, 16, kStack4, kRowLanes2),
    map("ldmatrix.x1.trans", kLdmatrix, 8, 8, 16, kColumn2, kColumnLanes2),
    map("ldmatrix.x2.trans", kLdmatrix, 16, 8, 16, kStack2Transposed, kColumnLanes2),
    map("ldmatrix.x4.trans", kLdmatrix, 32, 8, 16, kStack4Transposed, kColumnLanes2),
    map("stmatrix.x1", kStmatrix, 8, 8, 16, kRow2, kRowLanes2),
    map("stmatrix.x2", kStmatrix, 16, 8, 16, kStack2, kRowLanes2),
    map("stmatrix.x4", kStmatrix, 32, 8, 16, kStack4, kRowLanes2),
    map("stmatrix.x1.trans", kStmatrix, 8, 8, 16, kColumn2, kColumnLanes2),
    map("stmatrix.x2.trans", kStmatrix, 16, 8, 16, kStack2Transposed, kColumnLanes2),
    map("stmatrix.x4.trans", kStmatrix, 32, 8, 16, kStack4Transposed, kColumnLanes2),

    // Both maps use coordinates of the source matrix. After movmatrix a lane holds the elements that the transposed map
    // states.
    map("movmatrix source", kMovmatrix, 8, 8, 16, kRow2, kRowLanes2),
    map("movmatrix destination", kMovmatrix, 8, 8, 16, kColumn2, kColumnLanes2),
};

void add(Element& sum, const Element& term) {
  sum.row ^= term.row;
  sum.column ^= term.column;
}

}  // namespace

Element FragmentMap::at(int lane, int value) const {
  Element sum;
  for (std::size_t bit = 0; bit < lane_bits.size(); ++bit) {
    if ((lane >> bit & 1) != 0) add(sum, lane_bits[bit]);
  }
  for (std::size_t bit = 0; bit < value_bits.size(); ++bit) {
    if ((value >> bit & 1) != 0) add(sum, value_bits[bit]);
  }
  return sum;
}

std::span<const FragmentMap> fragment_maps() { return kMaps; }

Element warpgroup_accumulator(int thread, int value) {
  const FragmentMap& part = find_fragment("wgmma.m64n8 D, 32-bit");
  Element at = part.at(thread % 32, value % part.value_count);
  at.row += thread / 32 * part.rows;
  at.column += value / part.value_count * part.columns;
  return at;
}

const FragmentMap& find_fragment(std::string_view name) {
  const auto found = std::find_if(kMaps.begin(), kMaps.end(), [&](const FragmentMap& map) { return map.name == name; });
  if (found == kMaps.end()) {
    throw Failure(Status::internal, fmt::format("fragment \"{}\"", name), "there is no such table",
                  "fragment_maps() lists the names");
  }
  return *found;
}

}  // namespace cubit::codegen
