// Tests of layouts: known facts about banks, the proof against an independent simulator, and the guarantees of the
// search.
#include "codegen/tile_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "tests/codegen/failure_text.hpp"

namespace cubit::codegen {
namespace {

TileLayout plain(int rows, int pitch) { return {.rows = rows, .row_bytes = pitch, .pitch = pitch, .swizzle = {}}; }

/// ldmatrix.x1 over a whole tile: one 8 × 8 matrix of 16-bit elements after another.
TileAccess ldmatrix(int rows, int row_bytes) {
  const int across = row_bytes / 16;
  return {.name = "ldmatrix",
          .kind = AccessKind::ldmatrix,
          .bytes_per_lane = 16,
          .instances = rows / 8 * across,
          .at = [across](int instance, int lane) -> std::optional<TileByte> {
            if (lane >= 8) return std::nullopt;
            return TileByte{instance / across * 8 + lane, instance % across * 16};
          }};
}

/// Consecutive lanes copy whole rows, as cp.async writes them.
TileAccess row_copy(int rows, int row_bytes) {
  const int per_row = row_bytes / 16;
  return {.name = "copy",
          .kind = AccessKind::store,
          .bytes_per_lane = 16,
          .instances = rows * per_row / 32,
          .at = [per_row](int instance, int lane) -> std::optional<TileByte> {
            const int piece = instance * 32 + lane;
            return TileByte{piece / per_row, piece % per_row * 16};
          }};
}

/// A fragment load without ldmatrix: groupID selects the row, and threadID_in_group selects the word.
TileAccess fragment_load() {
  return {.name = "fragment",
          .kind = AccessKind::load,
          .bytes_per_lane = 4,
          .instances = 1,
          .at = [](int, int lane) -> std::optional<TileByte> {
            return TileByte{lane >> 2, lane % 4 * 4};
          }};
}

int degree(const TileLayout& layout, const TileAccess& access) { return prove(layout, access).degree; }

TEST(TileLayout, RowsWhoseSixteenByteUnitsAreOddManyAreFreeOfConflicts) {
  for (const int row_bytes : {16, 48, 80, 112, 144, 176, 208}) {
    EXPECT_EQ(degree(plain(16, row_bytes), ldmatrix(16, row_bytes)), 1) << row_bytes;
  }
}

// Of eight rows, gcd(row in 16-byte units, 8) fall on the same banks.
TEST(TileLayout, DegreeOfAPlainLayoutIsTheCommonFactorWithTheBanks) {
  for (int row_bytes = 16; row_bytes <= 512; row_bytes += 16) {
    EXPECT_EQ(degree(plain(16, row_bytes), ldmatrix(16, row_bytes)), std::gcd(row_bytes / 16, 8)) << row_bytes;
  }
}

TEST(TileLayout, SixtyEightByteRowsSuitFourByteLoadsOfAColumn) {
  const TileAccess column{.name = "column",
                          .kind = AccessKind::load,
                          .bytes_per_lane = 4,
                          .instances = 17,
                          .at = [](int instance, int lane) -> std::optional<TileByte> {
                            return TileByte{lane, instance * 4};
                          }};
  EXPECT_EQ(degree(plain(32, 68), column), 1);
  EXPECT_EQ(degree(plain(32, 72), column), 2);
  EXPECT_EQ(degree(plain(32, 128), column), 32);
}

// Each of 8 groups reads 4 words of a row, so the rows must start 4 words apart modulo the banks.
TEST(TileLayout, EightyByteRowsSuitFragmentLoads) {
  EXPECT_EQ(degree(plain(8, 80), fragment_load()), 1);
  EXPECT_EQ(degree(plain(8, 68), fragment_load()), 2);
  EXPECT_EQ(degree(plain(8, 64), fragment_load()), 4);
  EXPECT_EQ(degree(plain(8, 128), fragment_load()), 8);
}

TEST(TileLayout, LanesThatReadOneWordShareIt) {
  const TileAccess broadcast{.name = "broadcast",
                             .kind = AccessKind::load,
                             .bytes_per_lane = 4,
                             .instances = 3,
                             .at = [](int, int) -> std::optional<TileByte> {
                               return TileByte{1, 8};
                             }};
  EXPECT_EQ(prove(plain(4, 128), broadcast), (ConflictProof{"broadcast", 1, 3, 3}));
}

TEST(TileLayout, AnAccessWithoutLanesCostsNothing) {
  const TileAccess nobody{.name = "nobody",
                          .kind = AccessKind::store,
                          .bytes_per_lane = 8,
                          .instances = 5,
                          .at = [](int, int) -> std::optional<TileByte> { return std::nullopt; }};
  EXPECT_EQ(prove(plain(4, 128), nobody), (ConflictProof{"nobody", 1, 0, 0}));
}

// The degree is that of the worst instance; the sums cover all instances.
TEST(TileLayout, DegreeIsTheWorstInstance) {
  const TileAccess access{.name = "mixed",
                          .kind = AccessKind::load,
                          .bytes_per_lane = 4,
                          .instances = 2,
                          .at = [](int instance, int lane) -> std::optional<TileByte> {
                            return instance == 0 ? TileByte{0, lane * 4} : TileByte{lane, 0};
                          }};
  EXPECT_EQ(prove(plain(32, 128), access), (ConflictProof{"mixed", 32, 33, 2}));
}

TEST(TileLayout, ProofsComeInTheOrderOfTheAccesses) {
  const std::vector<TileAccess> accesses = {ldmatrix(16, 256), row_copy(16, 256)};
  const std::vector<ConflictProof> proofs = prove(plain(16, 256), accesses);
  ASSERT_EQ(proofs.size(), 2U);
  EXPECT_EQ(proofs[0].access, "ldmatrix");
  EXPECT_EQ(proofs[0].degree, 8);
  EXPECT_EQ(proofs[1].access, "copy");
  EXPECT_EQ(proofs[1].degree, 1);
}

// A second, slow implementation of the hardware rule: byte by byte, with sets of words per bank.
ConflictProof simulate(const TileLayout& layout, const TileAccess& access) {
  const bool matrix = access.kind == AccessKind::ldmatrix || access.kind == AccessKind::stmatrix;
  const int phases = matrix ? 4 : access.bytes_per_lane == 16 ? 4 : access.bytes_per_lane == 8 ? 2 : 1;
  ConflictProof proof{.access = access.name, .degree = 1};
  for (int instance = 0; instance < access.instances; ++instance) {
    int wavefronts = 0;
    int ideal = 0;
    for (int phase = 0; phase < phases; ++phase) {
      std::map<int, std::set<int>> banks;
      std::set<int> words;
      for (int lane = phase * 32 / phases; lane < (phase + 1) * 32 / phases; ++lane) {
        const std::optional<TileByte> at = access.at(instance, lane);
        for (int byte = 0; at && byte < access.bytes_per_lane; ++byte) {
          const int address = layout.address({at->row, at->byte + byte});
          banks[address % 128 / 4].insert(address / 4);
          words.insert(address / 4);
        }
      }
      std::size_t most = 0;
      for (const auto& [bank, in_bank] : banks) most = std::max(most, in_bank.size());
      wavefronts += static_cast<int>(most);
      ideal += static_cast<int>((words.size() + 31) / 32);
    }
    if (ideal > 0) proof.degree = std::max(proof.degree, (wavefronts + ideal - 1) / ideal);
    proof.wavefronts += wavefronts;
    proof.ideal += ideal;
  }
  return proof;
}

TEST(TileLayout, ProofAgreesWithAnIndependentSimulator) {
  std::mt19937 random(20240607);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int conflicts = 0;
  for (int round = 0; round < 3000; ++round) {
    const int width = 2 << pick(0, 3);
    const int rows = pick(1, 40);
    const int units = pick(1, 24);
    TileLayout layout{.rows = rows, .row_bytes = units * width, .pitch = (units + pick(0, 5)) * width, .swizzle = {}};
    if (pick(0, 3) == 0 && units % 2 == 0) {
      layout.part_bytes = layout.row_bytes / 2;
      layout.pitch -= layout.part_bytes;
    }
    const int bits = pick(0, 3);
    const int base = pick(width == 16 ? 4 : width == 8 ? 3 : 2, 5);
    layout.swizzle = {.bits = bits, .base = base, .shift_from = base + bits + pick(0, 4)};
    std::vector<std::optional<TileByte>> lanes(64);
    for (auto& lane : lanes) {
      if (pick(0, 7) != 0) lane = TileByte{pick(0, rows - 1), pick(0, units - 1) * width};
    }
    const bool matrix = width == 16 && pick(0, 1) == 1;
    const TileAccess access{.name = "random",
                            .kind = matrix ? AccessKind::stmatrix : AccessKind::load,
                            .bytes_per_lane = width,
                            .instances = 2,
                            .at = [&](int instance, int lane) { return lanes[instance * 32 + lane]; }};
    const ConflictProof proof = prove(layout, access);
    ASSERT_EQ(proof, simulate(layout, access)) << "round " << round;
    conflicts += proof.degree > 1 ? 1 : 0;
  }
  EXPECT_GT(conflicts, 500);  // the rounds are not all trivial
}

TEST(TileLayout, ASwizzledLayoutIsABijectionThatStaysInside) {
  for (const int pitch : {16, 48, 80, 96, 128, 160, 256}) {
    for (int bits = 0; bits <= 3; ++bits) {
      for (int base = 2; base <= 5; ++base) {
        for (int shift = base + bits; shift <= base + bits + 4; ++shift) {
          TileLayout layout = plain(13, pitch);
          layout.swizzle = {.bits = bits, .base = base, .shift_from = shift};
          std::set<int> addresses;
          for (int row = 0; row < layout.rows; ++row) {
            for (int byte = 0; byte < layout.row_bytes; ++byte) addresses.insert(layout.address({row, byte}));
          }
          EXPECT_EQ(addresses.size(), static_cast<std::size_t>(layout.rows * layout.row_bytes));
          EXPECT_GE(*addresses.begin(), 0);
          EXPECT_LT(*addresses.rbegin(), layout.size());
          EXPECT_LT(layout.size() - layout.rows * pitch, 1 << (base + bits));  // and the layout wastes less than one
                                                                               // block
        }
      }
    }
  }
}

TEST(TileLayout, RowsInPartsHaveFirstAllFirstParts) {
  const TileLayout layout{.rows = 5, .row_bytes = 96, .pitch = 48, .swizzle = {}, .part_bytes = 32};
  EXPECT_EQ(layout.address({0, 31}), 31);
  EXPECT_EQ(layout.address({1, 0}), 48);
  EXPECT_EQ(layout.address({0, 32}), 5 * 48);
  EXPECT_EQ(layout.address({4, 95}), (2 * 5 + 4) * 48 + 31);
  EXPECT_EQ(layout.size(), layout.address({4, 95}) + 1);
}

TEST(TileLayout, PartsOfSwizzledRowsAreABijectionThatStaysInside) {
  for (const int parts : {1, 2, 6, 16}) {
    const TileLayout layout{
        .rows = 16, .row_bytes = 128 * parts, .pitch = 128, .swizzle = {3, 4, 7}, .part_bytes = 128};
    std::set<int> addresses;
    for (int row = 0; row < layout.rows; ++row) {
      for (int byte = 0; byte < layout.row_bytes; ++byte) addresses.insert(layout.address({row, byte}));
    }
    EXPECT_EQ(std::ssize(addresses), layout.size());
    EXPECT_EQ(*addresses.rbegin(), layout.size() - 1);
    EXPECT_EQ(degree(layout, ldmatrix(16, layout.row_bytes)), 1) << parts;
  }
}

TEST(TileLayout, ASwizzleIsItsOwnInverse) {
  const Swizzle swizzle{.bits = 3, .base = 4, .shift_from = 8};
  for (int address = 0; address < 8192; ++address) EXPECT_EQ(swizzle.apply(swizzle.apply(address)), address);
  EXPECT_NE(swizzle.apply(256), 256);
}

TEST(TileLayout, SizeOfAPlainLayoutEndsWithItsLastByte) {
  const TileLayout layout{.rows = 3, .row_bytes = 100, .pitch = 112, .swizzle = {}};
  EXPECT_EQ(layout.size(), 2 * 112 + 100);
}

TEST(SearchLayout, LeavesWhatIsFreeOfConflictsAlone) {
  for (const int row_bytes : {48, 80, 144}) {
    const std::vector<TileAccess> accesses = {ldmatrix(16, row_bytes)};
    EXPECT_EQ(search_layout(16, row_bytes, 16, accesses), plain(16, row_bytes)) << row_bytes;
  }
  EXPECT_EQ(search_layout(16, 256, 16, {}), plain(16, 256));
}

TEST(SearchLayout, TwoHundredFiftySixByteRowsNeedThreeBits) {
  const std::vector<TileAccess> accesses = {ldmatrix(64, 256), row_copy(64, 256)};
  const TileLayout found = search_layout(64, 256, 16, accesses);
  EXPECT_EQ(found.pitch, 256);
  EXPECT_EQ(found.swizzle, (Swizzle{.bits = 3, .base = 4, .shift_from = 8}));
  for (const ConflictProof& proof : prove(found, accesses)) EXPECT_EQ(proof.degree, 1) << proof.access;
  // Fewer bits cannot suffice, whatever their source bits are.
  for (int bits = 0; bits <= 2; ++bits) {
    for (int shift = 4 + bits; shift <= 13; ++shift) {
      TileLayout fewer = plain(64, 256);
      fewer.swizzle = {.bits = bits, .base = 4, .shift_from = shift};
      EXPECT_GT(degree(fewer, accesses[0]), 1);
    }
  }
}

TEST(SearchLayout, FixesRowsOfNinetySixAndHundredSixtyBytes) {
  for (const int row_bytes : {96, 160}) {
    const std::vector<TileAccess> accesses = {ldmatrix(16, row_bytes)};
    EXPECT_EQ(degree(plain(16, row_bytes), accesses[0]), 2);
    const TileLayout found = search_layout(16, row_bytes, 16, accesses);
    EXPECT_EQ(degree(found, accesses[0]), 1);
    EXPECT_EQ(found.pitch, row_bytes) << "a swizzle comes before padding";
    EXPECT_EQ(found.swizzle.bits, 1);
  }
}

TEST(SearchLayout, EveryRowLengthBecomesFreeOfConflicts) {
  for (int row_bytes = 16; row_bytes <= 512; row_bytes += 16) {
    const std::vector<TileAccess> accesses = {ldmatrix(32, row_bytes), row_copy(32, row_bytes)};
    const TileLayout found = search_layout(32, row_bytes, 16, accesses);
    EXPECT_EQ(degree(found, accesses[0]), 1) << row_bytes;
  }
}

TEST(SearchLayout, NarrowAccessesMayBeSwizzledInNarrowUnits) {
  const std::vector<TileAccess> accesses = {fragment_load()};
  const TileLayout found = search_layout(8, 16, 4, accesses);
  EXPECT_EQ(degree(found, accesses[0]), 1);
  const TileAccess columns{.name = "columns",
                           .kind = AccessKind::load,
                           .bytes_per_lane = 4,
                           .instances = 1,
                           .at = [](int, int lane) -> std::optional<TileByte> {
                             return TileByte{lane % 8, lane / 8 * 32};
                           }};
  const TileLayout narrow = search_layout(8, 128, 4, std::vector<TileAccess>{columns});
  EXPECT_EQ(degree(narrow, columns), 1);
  EXPECT_EQ(narrow.pitch, 128);
  EXPECT_LT(narrow.swizzle.base, 4);
}

// A column of single words in rows of 128 bytes has 32 conflicts. Three swizzle bits reach only 8 places, so padding is
// needed.
TEST(SearchLayout, PadsWhereNoSwizzleReaches) {
  const TileAccess column{.name = "column",
                          .kind = AccessKind::load,
                          .bytes_per_lane = 4,
                          .instances = 32,
                          .at = [](int instance, int lane) -> std::optional<TileByte> {
                            return TileByte{lane, instance * 4};
                          }};
  const TileLayout found = search_layout(32, 128, 4, std::vector<TileAccess>{column});
  EXPECT_EQ(found, (TileLayout{.rows = 32, .row_bytes = 128, .pitch = 132, .swizzle = {}}));
}

TEST(SearchLayout, RowStartsKeepTheirAlignment) {
  for (const int alignment : {4, 8, 16}) {
    const TileLayout found = search_layout(16, 100, alignment, std::vector<TileAccess>{fragment_load()});
    for (int row = 0; row < found.rows; ++row) EXPECT_EQ(found.address({row, 0}) % alignment, 0);
  }
}

TEST(TileLayoutFailures, SayWhichLaneAndWhy) {
  const auto single = [](AccessKind kind, int bytes, TileByte at) {
    return TileAccess{.name = "probe",
                      .kind = kind,
                      .bytes_per_lane = bytes,
                      .instances = 2,
                      .at = [at](int instance, int lane) -> std::optional<TileByte> {
                        if (instance == 1 && lane == 5) return at;
                        return std::nullopt;
                      }};
  };
  const auto text = [&](const TileLayout& layout, const TileAccess& access) {
    return failure_text([&] { prove(layout, access); });
  };
  EXPECT_EQ(text(plain(4, 64), single(AccessKind::load, 4, {4, 0})),
            "access \"probe\", instance 1, lane 5: row 4, byte 0: outside the tile of 4 rows of 64 bytes");
  EXPECT_THAT(text(plain(4, 64), single(AccessKind::load, 16, {3, 56})), testing::HasSubstr("outside the tile"));
  EXPECT_THAT(text(plain(4, 64), single(AccessKind::load, 4, {-1, 0})), testing::HasSubstr("outside the tile"));
  EXPECT_THAT(text(plain(4, 64), single(AccessKind::store, 4, {0, -4})), testing::HasSubstr("outside the tile"));
  EXPECT_EQ(
      text(plain(4, 72), single(AccessKind::ldmatrix, 16, {1, 0})),
      "access \"probe\", instance 1, lane 5: row 1, byte 0: 16 bytes at address 72 are not aligned and contiguous");
  const TileLayout parts{.rows = 4, .row_bytes = 48, .pitch = 32, .swizzle = {}, .part_bytes = 24};
  EXPECT_THAT(text(parts, single(AccessKind::load, 16, {0, 16})), testing::HasSubstr("not aligned and contiguous"));
  TileLayout torn = plain(4, 64);
  torn.swizzle = {.bits = 1, .base = 2, .shift_from = 12};
  EXPECT_THAT(text(torn, single(AccessKind::load, 8, {0, 0})), testing::HasSubstr("not aligned and contiguous"));
}

TEST(TileLayoutFailures, RejectUnsoundLayoutsAndAccesses) {
  TileLayout narrow{.rows = 2, .row_bytes = 64, .pitch = 32, .swizzle = {}};
  EXPECT_EQ(failure_text([&] { prove(narrow, fragment_load()); }),
            "a layout of 2 rows of 64 bytes in parts of 0, pitch 32, swizzle <0, 4, 7>: rows, row_bytes >= 1, whole "
            "parts, pitch >= row or part, shift_from >= base + bits");
  TileLayout broken{.rows = 2, .row_bytes = 64, .pitch = 64, .swizzle = {}, .part_bytes = 24};
  EXPECT_THAT(failure_text([&] { prove(broken, fragment_load()); }), testing::HasSubstr("64 bytes in parts of 24"));
  TileLayout tight{.rows = 2, .row_bytes = 64, .pitch = 16, .swizzle = {}, .part_bytes = 32};
  EXPECT_THAT(failure_text([&] { prove(tight, fragment_load()); }), testing::HasSubstr("pitch 16"));
  TileLayout overlapping = plain(8, 64);
  overlapping.swizzle = {.bits = 3, .base = 4, .shift_from = 6};
  EXPECT_THAT(failure_text([&] { prove(overlapping, fragment_load()); }), testing::HasSubstr("<3, 4, 6>"));
  TileAccess odd = fragment_load();
  odd.bytes_per_lane = 3;
  const std::string rule =
      ": an access needs an address function and moves 2, 4, 8 or 16 bytes per lane; a matrix access moves 16";
  EXPECT_EQ(failure_text([&] { prove(plain(8, 64), odd); }), "access \"fragment\" of 3 bytes per lane" + rule);
  TileAccess matrix = fragment_load();
  matrix.kind = AccessKind::ldmatrix;
  EXPECT_EQ(failure_text([&] { prove(plain(8, 64), matrix); }), "access \"fragment\" of 4 bytes per lane" + rule);
  TileAccess nowhere = fragment_load();
  nowhere.at = nullptr;
  EXPECT_EQ(failure_text([&] { prove(plain(8, 64), nowhere); }), "access \"fragment\" of 4 bytes per lane" + rule);
  EXPECT_EQ(failure_text([] { search_layout(8, 64, 12, {}); }), "row alignment 12: a power of two from 1 to 128");
  EXPECT_EQ(failure_text([] { layout_function("a b", plain(1, 16)); }),
            "layout function \"a b\": not a C++ identifier");
}

TEST(LayoutFunction, IsAffineWithoutASwizzle) {
  EXPECT_EQ(layout_function("key_tile", plain(4, 80)),
            "constexpr __device__ int key_tile(int row, int byte) { return row * 80 + byte; }\n");
}

}  // namespace
}  // namespace cubit::codegen
