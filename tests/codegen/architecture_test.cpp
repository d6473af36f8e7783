// Tests of the architecture table: order, consistency of rows, look-ups and their messages, occupancy.
#include "codegen/architecture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

std::string failure_text(auto&& action, Status status) {
  try {
    action();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), status);
    return failure.what();
  }
  return "no failure";
}

const Architecture& base_of(const Architecture& row) {
  return find_architecture("sm_" + std::to_string(row.capability));
}

TEST(Architecture, NamesSpellCapabilityAndVariantInAscendingOrder) {
  int previous = 0;
  for (const Architecture& row : architectures()) {
    std::string name = "sm_" + std::to_string(row.capability);
    if (row.variant != '\0') name += row.variant;
    EXPECT_EQ(row.name, name);
    const int order = row.capability * 256 + row.variant;
    EXPECT_GT(order, previous) << row.name;
    previous = order;
    EXPECT_EQ(&find_architecture(row.name), &row);
  }
}

TEST(Architecture, VariantsHaveTheCapacityAndShapesOfTheirChip) {
  for (const Architecture& row : architectures()) {
    const Architecture& base = base_of(row);
    EXPECT_EQ(base.variant, '\0');
    EXPECT_EQ(row.shared_memory_per_sm, base.shared_memory_per_sm) << row.name;
    EXPECT_EQ(row.threads_per_sm, base.threads_per_sm) << row.name;
    EXPECT_EQ(row.blocks_per_sm, base.blocks_per_sm) << row.name;
    EXPECT_TRUE(std::ranges::equal(row.mma_shapes, base.mma_shapes)) << row.name;
  }
}

// CUDA C++ Programming Guide: one block may use all of an SM's shared memory except the part that the system reserves
// for it.
TEST(Architecture, OneBlockMayHaveAllSharedMemoryButItsReserve) {
  for (const Architecture& row : architectures()) {
    EXPECT_EQ(row.shared_memory_per_block + row.shared_memory_reserved, row.shared_memory_per_sm) << row.name;
    EXPECT_EQ(row.shared_memory_reserved, row.capability < 80 ? 0 : 1024) << row.name;
    EXPECT_EQ(row.shared_memory_unit, row.capability < 80 ? 256 : 128) << row.name;
    EXPECT_EQ(row.threads_per_sm % 32, 0) << row.name;
    EXPECT_EQ(row.registers_per_sm, 65536) << row.name;
  }
}

// Rows of the programming guide's table, written independently of the rows in the code.
TEST(Architecture, CapacitiesAreThoseOfTheProgrammingGuide) {
  struct Row {
    int capability, shared_kib, threads, blocks;
  };
  for (const Row& expected :
       {Row{75, 64, 1024, 16}, Row{80, 164, 2048, 32}, Row{86, 100, 1536, 16}, Row{87, 164, 1536, 16},
        Row{88, 100, 1536, 16}, Row{89, 100, 1536, 24}, Row{90, 228, 2048, 32}, Row{100, 228, 2048, 32},
        Row{103, 228, 2048, 32}, Row{110, 228, 1536, 24}, Row{120, 100, 1536, 24}, Row{121, 100, 1536, 24}}) {
    const Architecture& row = find_architecture("sm_" + std::to_string(expected.capability));
    EXPECT_EQ(row.shared_memory_per_sm, expected.shared_kib * 1024) << row.name;
    EXPECT_EQ(row.threads_per_sm, expected.threads) << row.name;
    EXPECT_EQ(row.blocks_per_sm, expected.blocks) << row.name;
  }
}

TEST(Architecture, HasMmaComparesAllOfAShape) {
  const Architecture& ampere = find_architecture("sm_80");
  EXPECT_TRUE(ampere.has_mma({16, 8, 16, MmaType::bf16}));
  EXPECT_TRUE(ampere.has_mma({16, 8, 64, MmaType::int4}));
  EXPECT_FALSE(ampere.has_mma({16, 8, 32, MmaType::bf16}));
  EXPECT_FALSE(ampere.has_mma({16, 8, 32, MmaType::e4m3}));
  EXPECT_FALSE(find_architecture("sm_90a").has_mma({16, 8, 64, MmaType::int4}));
}

// A change of this list changes what `cubit compile` makes on machines without a GPU.
TEST(Architecture, TheUsualOnesAreOnePerGeneration) {
  std::vector<std::string> usual;
  for (const Architecture& row : architectures()) {
    if (row.usual) usual.emplace_back(row.name);
  }
  EXPECT_THAT(usual, testing::ElementsAre("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"));
}

TEST(Architecture, CodeRunsUpwardWithinItsMajorCapabilityAndAnAVariantOnItsOwnOnly) {
  const auto runs = [](const char* code, const char* device) {
    return runs_on(find_architecture(code), find_architecture(device));
  };
  EXPECT_TRUE(runs("sm_80", "sm_89"));
  EXPECT_FALSE(runs("sm_89", "sm_80"));
  EXPECT_FALSE(runs("sm_89", "sm_90a"));
  EXPECT_TRUE(runs("sm_90", "sm_90a"));
  EXPECT_TRUE(runs("sm_100f", "sm_103a"));
  EXPECT_FALSE(runs("sm_100a", "sm_103a"));
  EXPECT_FALSE(runs("sm_100", "sm_110a"));
  EXPECT_FALSE(runs("sm_86", "sm_87"));
  EXPECT_FALSE(runs("sm_87", "sm_89"));
  EXPECT_TRUE(runs("sm_87", "sm_87"));
  for (const Architecture& code : architectures()) {
    for (const Architecture& device : architectures()) {
      if (!runs_on(code, device)) continue;
      EXPECT_LE(code.capability, device.capability) << code.name << " on " << device.name;
      EXPECT_EQ(code.capability / 10, device.capability / 10) << code.name << " on " << device.name;
    }
    EXPECT_TRUE(runs_on(code, architecture_of_device(code.capability / 10, code.capability % 10))) << code.name;
  }
}

TEST(Architecture, UnknownNameListsTheAcceptedOnes) {
  for (const char* name : {"sm_52", "sm_90f", "sm_90A", "90a", "sm_900", "", "compute_90"}) {
    const std::string text = failure_text([&] { find_architecture(name); }, Status::unsupported);
    EXPECT_THAT(text, testing::StartsWith("architecture \"" + std::string(name) +
                                          "\": cubit knows no such target; accepted: sm_75, sm_80, "));
    for (const Architecture& row : architectures()) EXPECT_THAT(text, testing::HasSubstr(" " + std::string(row.name)));
  }
}

TEST(Architecture, DeviceGetsTheAVariantWhereOneExists) {
  for (const Architecture& row : architectures()) {
    const Architecture& best = architecture_of_device(row.capability / 10, row.capability % 10);
    EXPECT_EQ(best.capability, row.capability);
    EXPECT_EQ(best.variant, row.capability < 90 ? '\0' : 'a') << row.name;
  }
}

TEST(Architecture, UnknownDeviceIsNamed) {
  const std::string text = failure_text([] { architecture_of_device(7, 0); }, Status::unsupported);
  EXPECT_THAT(text,
              testing::StartsWith("a device of compute capability 7.0: cubit knows no target for it; accepted: "));
  // 7·10 + 19 is 89, but compute capability 7.19 does not exist.
  failure_text([] { architecture_of_device(7, 19); }, Status::unsupported);
  EXPECT_THROW(architecture_of_device(7, 19), Failure);
  EXPECT_THROW(architecture_of_device(10, -11), Failure);
}

// Each number is computed by hand. One limit binds, and all other limits are far away.
TEST(Occupancy, EachLimitBinds) {
  const Architecture& hopper = find_architecture("sm_90a");
  EXPECT_EQ(resident_blocks(hopper, 32, 32, 0), 32);                       // blocks per SM
  EXPECT_EQ(resident_blocks(hopper, 1024, 32, 0), 2);                      // threads: 2048 / 1024
  EXPECT_EQ(resident_blocks(hopper, 128, 128, 0), 4);                      // registers: 65536 / (128 · 128)
  EXPECT_EQ(resident_blocks(hopper, 128, 64, 48 * 1024), 4);               // shared memory: 228 / 49
  EXPECT_EQ(resident_blocks(hopper, 128, 64, 75 * 1024), 3);               // 228 / 76 exactly
  EXPECT_EQ(resident_blocks(hopper, 128, 64, 75 * 1024 + 1), 2);           // with one byte more
  EXPECT_EQ(resident_blocks(find_architecture("sm_86"), 128, 32, 0), 12);  // threads: 1536 / 128
  EXPECT_EQ(resident_blocks(find_architecture("sm_75"), 64, 32, 64 * 1024), 1);
}

TEST(Occupancy, RegistersAreRoundedAndSplitOverSubPartitions) {
  const Architecture& ampere = find_architecture("sm_80");
  EXPECT_EQ(resident_blocks(ampere, 128, 121, 0), resident_blocks(ampere, 128, 128, 0));
  EXPECT_EQ(resident_blocks(ampere, 128, 120, 0), 4);  // 16384 / 3840 = 4 warps per sub-partition, 16 warps of 4 per
                                                       // block
  EXPECT_EQ(resident_blocks(ampere, 32, 168, 0), 12);  // 16384 / 5376 = 3 warps per sub-partition
  EXPECT_EQ(resident_blocks(ampere, 96, 168, 0), 4);
  EXPECT_EQ(resident_blocks(ampere, 1024, 64, 0), 1);
}

TEST(Occupancy, ABlockThatDoesNotFitCountsZero) {
  const Architecture& hopper = find_architecture("sm_90a");
  EXPECT_EQ(resident_blocks(hopper, 128, 32, 227 * 1024), 1);
  EXPECT_EQ(resident_blocks(hopper, 128, 32, 227 * 1024 + 1), 0);
  EXPECT_EQ(resident_blocks(hopper, 1024, 65, 0), 0);
  EXPECT_EQ(resident_blocks(hopper, 128, 256, 0), 0);
  EXPECT_EQ(resident_blocks(hopper, 1025, 16, 0), 0);
  EXPECT_EQ(resident_blocks(hopper, 0, 16, 0), 0);
  EXPECT_EQ(resident_blocks(hopper, 128, 16, -1), 0);
}

// NVIDIA's dense fp16 TFLOP/s of whole GPUs at boost clock, for the given SMs and MHz.
TEST(Architecture, TensorRatesGiveTheNumbersOfDataSheets) {
  struct Part {
    const char* architecture;
    int multiprocessors;
    double megahertz;
    double teraflops;
  };
  constexpr Part kParts[] = {{"sm_80", 108, 1410, 312},     // A100
                             {"sm_89", 128, 2520, 330.3},   // GeForce RTX 4090, fp16 accumulation
                             {"sm_90a", 132, 1830, 989.4},  // H100 SXM
                             {"sm_120", 170, 2407, 419}};   // GeForce RTX 5090, fp16 accumulation
  for (const Part& part : kParts) {
    const double rate = tensor_operations_per_clock(find_architecture(part.architecture));
    EXPECT_NEAR(rate * part.multiprocessors * part.megahertz * 1e-6, part.teraflops, 0.005 * part.teraflops)
        << part.architecture;
  }
  EXPECT_EQ(tensor_operations_per_clock(find_architecture("sm_110")), 0);  // no source states a number
}

}  // namespace
}  // namespace cubit::codegen
