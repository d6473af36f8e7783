// Checks every fragment table, at every lane and value, against the formulas of the PTX ISA.
#include "codegen/fragments.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

using Formula = std::function<Element(int group_id, int thread_in_group, int i)>;

/// Formulas written from the ISA's text, one case at a time and independent of the tables. `g` is groupID, `t` is
/// threadID_in_group.
using Formulas = std::map<std::string, Formula>;

Element row_of_8(int g, int t, int i) { return {g, t * 2 + i}; }
Element accumulator16(int g, int t, int i) { return {i < 2 ? g : g + 8, t * 2 + (i & 1)}; }

void add_small_shapes(Formulas& f) {
  f["mma.m8n8k4 A, 64-bit"] = [](int g, int t, int) { return Element{g, t}; };
  f["mma.m8n8k4 B, 64-bit"] = [](int g, int t, int) { return Element{t, g}; };
  f["mma.m8n8k4 C, 64-bit"] = row_of_8;
  f["mma.m16n8k4 A, 64-bit"] = [](int g, int t, int i) { return Element{i == 0 ? g : g + 8, t}; };
  f["mma.m16n8k4 B, 64-bit"] = [](int g, int t, int) { return Element{t, g}; };
  f["mma.m16n8k4 C, 64-bit"] = accumulator16;
  for (const char* shape : {"mma.m16n8k8", "mma.m16n8k16"}) {
    f[shape + std::string(" A, 64-bit")] = [](int g, int t, int i) {
      return Element{i % 2 == 0 ? g : g + 8, i / 2 * 4 + t};
    };
    f[shape + std::string(" B, 64-bit")] = [](int g, int t, int i) { return Element{i * 4 + t, g}; };
    f[shape + std::string(" C, 64-bit")] = accumulator16;
  }
  f["mma.m8n8k16 A, 8-bit"] = [](int g, int t, int i) { return Element{g, t * 4 + i}; };
  f["mma.m8n8k16 B, 8-bit"] = [](int g, int t, int i) { return Element{t * 4 + i, g}; };
  f["mma.m8n8k16 C, 32-bit"] = row_of_8;
  f["mma.m8n8k32 A, 4-bit"] = [](int g, int t, int i) { return Element{g, t * 8 + i}; };
  f["mma.m8n8k32 B, 4-bit"] = [](int g, int t, int i) { return Element{t * 8 + i, g}; };
  f["mma.m8n8k32 C, 32-bit"] = row_of_8;
  f["mma.m16n8k4 A, 32-bit"] = [](int g, int t, int i) { return Element{i == 0 ? g : g + 8, t}; };
  f["mma.m16n8k4 B, 32-bit"] = [](int g, int t, int) { return Element{t, g}; };
  f["mma.m16n8k4 C, 32-bit"] = accumulator16;
}

void add_large_shapes(Formulas& f) {
  f["mma.m16n8k8 A, 16-bit"] = [](int g, int t, int i) { return Element{i < 2 ? g : g + 8, t * 2 + (i & 1)}; };
  f["mma.m16n8k8 A, 32-bit"] = [](int g, int t, int i) {
    return Element{i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
  };
  f["mma.m16n8k8 B, 16-bit"] = [](int g, int t, int i) { return Element{t * 2 + i, g}; };
  f["mma.m16n8k8 B, 32-bit"] = [](int g, int t, int i) { return Element{i == 0 ? t : t + 4, g}; };
  f["mma.m16n8k8 C, 16-bit"] = accumulator16;
  f["mma.m16n8k8 C, 32-bit"] = accumulator16;
  f["mma.m16n8k16 A, 16-bit"] = [](int g, int t, int i) {
    const bool upper = i < 2 || (4 <= i && i < 6);
    return Element{upper ? g : g + 8, i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8};
  };
  f["mma.m16n8k16 A, 8-bit"] = [](int g, int t, int i) { return Element{i < 4 ? g : g + 8, t * 4 + (i & 3)}; };
  f["mma.m16n8k16 B, 16-bit"] = [](int g, int t, int i) {
    return Element{i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8, g};
  };
  f["mma.m16n8k16 B, 8-bit"] = [](int g, int t, int i) { return Element{t * 4 + i, g}; };
  f["mma.m16n8k16 C, 16-bit"] = accumulator16;
  f["mma.m16n8k16 C, 32-bit"] = accumulator16;
  f["mma.m16n8k32 A, 8-bit"] = [](int g, int t, int i) {
    const bool upper = i < 4 || (8 <= i && i < 12);
    return Element{upper ? g : g + 8, i < 8 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16};
  };
  f["mma.m16n8k32 A, 4-bit"] = [](int g, int t, int i) { return Element{i < 8 ? g : g + 8, t * 8 + (i & 7)}; };
  f["mma.m16n8k32 B, 8-bit"] = [](int g, int t, int i) {
    return Element{i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16, g};
  };
  f["mma.m16n8k32 B, 4-bit"] = [](int g, int t, int i) { return Element{t * 8 + i, g}; };
  f["mma.m16n8k32 C, 16-bit"] = accumulator16;
  f["mma.m16n8k32 C, 32-bit"] = accumulator16;
  f["mma.m16n8k64 A, 4-bit"] = [](int g, int t, int i) {
    const bool upper = i < 8 || (16 <= i && i < 24);
    return Element{upper ? g : g + 8, i < 16 ? t * 8 + (i & 7) : t * 8 + (i & 7) + 32};
  };
  f["mma.m16n8k64 B, 4-bit"] = [](int g, int t, int i) {
    return Element{i < 8 ? t * 8 + (i & 7) : t * 8 + (i & 7) + 32, g};
  };
  f["mma.m16n8k64 C, 32-bit"] = accumulator16;
}

void add_wgmma_and_moves(Formulas& f) {
  f["wgmma.m64k16 A, 16-bit"] = f["mma.m16n8k16 A, 16-bit"];
  f["wgmma.m64k32 A, 8-bit"] = f["mma.m16n8k32 A, 8-bit"];
  f["wgmma.m64n8 D, 32-bit"] = accumulator16;
  // Register r of a matrix instruction belongs to matrix r. Row j of the matrix is the row at which lane 8r + j
  // points.
  for (const std::string instruction : {"ldmatrix", "stmatrix"}) {
    for (const char* count : {".x1", ".x2", ".x4"}) {
      f[instruction + count] = [](int g, int t, int i) { return Element{i / 2 * 8 + g, t * 2 + i % 2}; };
      f[instruction + count + ".trans"] = [](int g, int t, int i) { return Element{i / 2 * 8 + t * 2 + i % 2, g}; };
    }
  }
  f["movmatrix source"] = row_of_8;
  f["movmatrix destination"] = [](int g, int t, int i) { return Element{t * 2 + i, g}; };
}

const Formulas& formulas() {
  static const Formulas kFormulas = [] {
    Formulas f;
    add_small_shapes(f);
    add_large_shapes(f);
    add_wgmma_and_moves(f);
    return f;
  }();
  return kFormulas;
}

TEST(Fragments, EveryTableHasAFormulaAndEveryFormulaATable) {
  std::set<std::string> names;
  for (const FragmentMap& map : fragment_maps()) {
    EXPECT_TRUE(names.insert(std::string(map.name)).second) << "twice: " << map.name;
    EXPECT_TRUE(formulas().contains(std::string(map.name))) << map.name;
    EXPECT_FALSE(map.section.empty()) << map.name;
  }
  EXPECT_EQ(names.size(), formulas().size());
}

TEST(Fragments, EveryLaneAndValueIsWhereTheIsaSays) {
  for (const FragmentMap& map : fragment_maps()) {
    const Formula& formula = formulas().at(std::string(map.name));
    for (int lane = 0; lane < 32; ++lane) {
      for (int value = 0; value < map.value_count; ++value) {
        EXPECT_EQ(map.at(lane, value), formula(lane >> 2, lane % 4, value))
            << map.name << ", lane " << lane << ", value " << value;
      }
    }
  }
}

TEST(Fragments, EveryTableIsABijectionOntoItsMatrix) {
  for (const FragmentMap& map : fragment_maps()) {
    std::set<Element> seen;
    for (int lane = 0; lane < 32; ++lane) {
      for (int value = 0; value < map.value_count; ++value) {
        const Element element = map.at(lane, value);
        EXPECT_TRUE(0 <= element.row && element.row < map.rows) << map.name;
        EXPECT_TRUE(0 <= element.column && element.column < map.columns) << map.name;
        EXPECT_TRUE(seen.insert(element).second) << map.name << ": two places for one element";
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(map.rows * map.columns)) << map.name;
    EXPECT_EQ(map.value_count, 1 << map.value_bits.size()) << map.name;
    EXPECT_EQ(map.lane_bits.size(), 5U) << map.name;
  }
}

/// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", D, of the largest N.
TEST(Fragments, AWarpgroupsAccumulatorsAreWhereTheIsaSays) {
  std::set<Element> seen;
  for (int thread = 0; thread < 128; ++thread) {
    const int warp = thread / 32;
    const int g = thread % 32 >> 2;
    const int t = thread % 4;
    for (int i = 0; i < 128; ++i) {
      const Element expected{16 * warp + (i % 4 < 2 ? g : g + 8), i / 4 * 8 + t * 2 + (i & 1)};
      EXPECT_EQ(warpgroup_accumulator(thread, i), expected) << "thread " << thread << ", value " << i;
      seen.insert(expected);
    }
  }
  EXPECT_EQ(seen.size(), 64U * 256U);
}

// Relations that kernels rely on when they chain instructions without a shuffle.
TEST(Fragments, InstructionsFitTogether) {
  const auto same = [](const char* left, const char* right) {
    const FragmentMap& a = find_fragment(left);
    const FragmentMap& b = find_fragment(right);
    ASSERT_EQ(a.value_count, b.value_count);
    for (int lane = 0; lane < 32; ++lane) {
      for (int value = 0; value < a.value_count; ++value) EXPECT_EQ(a.at(lane, value), b.at(lane, value)) << left;
    }
  };
  same("ldmatrix.x2", "mma.m16n8k8 A, 16-bit");
  same("ldmatrix.x2.trans", "mma.m16n8k16 B, 16-bit");
  same("movmatrix destination", "mma.m16n8k8 B, 16-bit");
  same("mma.m16n8k16 C, 16-bit", "mma.m16n8k8 A, 16-bit");
}

TEST(Fragments, RegistersAreCountedInUnitsOf32Bits) {
  EXPECT_EQ(find_fragment("mma.m16n8k16 A, 16-bit").registers(), 4);
  EXPECT_EQ(find_fragment("mma.m16n8k16 B, 16-bit").registers(), 2);
  EXPECT_EQ(find_fragment("mma.m16n8k16 C, 16-bit").registers(), 2);
  EXPECT_EQ(find_fragment("mma.m16n8k64 A, 4-bit").registers(), 4);
  EXPECT_EQ(find_fragment("mma.m8n8k4 A, 64-bit").registers(), 2);
  EXPECT_EQ(find_fragment("ldmatrix.x4").registers(), 4);
}

TEST(Fragments, AnUnknownNameIsABugOfOurs) {
  try {
    find_fragment("mma.m16n8k16 A");
    FAIL() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::internal);
    EXPECT_STREQ(failure.what(),
                 "fragment \"mma.m16n8k16 A\": there is no such table; fragment_maps() lists the names");
  }
}

}  // namespace
}  // namespace cubit::codegen
