// kv_append and kv_gather without running kernels: descriptor texts and launches. Other files test divisions
// (kv_rows_quotient_test.cpp), rotation and formats (kv_rows_format_test.cpp), problems (kv_rows_problem_test.cpp) and
// kernels (tests/cover).
#include <cubit/kv_append.h>
#include <cubit/kv_gather.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "check/random.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "ops/kv_gather/kv_gather.hpp"
#include "templates/kernels/attention/kv_append_arguments.h"
#include "templates/kernels/attention/kv_gather_arguments.h"
#include "tests/support/cache_descriptors.hpp"
#include "tests/support/compiled.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;

constexpr int kMultiprocessors = 4;
runtime::DeviceFacts small_device() { return tests::made_up_device("sm_80", kMultiprocessors); }
constexpr int kHeadDims[] = {64, 80, 96, 112, 128, 160, 192, 256};

std::vector<kv_cache::RowFormat> all_formats() {
  std::vector<kv_cache::RowFormat> formats;
  for (const int head_dim : kHeadDims) {
    formats.push_back({head_dim, KvFormat::bf16, 1});
    formats.push_back({head_dim, KvFormat::fp16, 1});
    for (const int groups : {1, 2, 4, 8})
      if (head_dim % (16 * groups) == 0) formats.push_back({head_dim, KvFormat::int4_rows, groups});
    for (const KvFormat kv : {KvFormat::int8_split, KvFormat::fp8_e4m3, KvFormat::fp8_e5m2})
      for (const ScaleType type : {ScaleType::fp32, ScaleType::fp16}) {
        for (const KvScales scales : {KvScales::head, KvScales::token, KvScales::tensor})
          formats.push_back({head_dim, kv, 1, scales, type});
        for (const int groups : {2, 4, 8})
          if (head_dim % (16 * groups) == 0) formats.push_back({head_dim, kv, groups, KvScales::group, type});
      }
  }
  return formats;
}

std::vector<KvAppend> all_appends() {
  std::vector<KvAppend> all;
  for (const auto& format : all_formats())
    for (const Element input : {Element::bf16, Element::fp16})
      for (const Rotary rotary : {Rotary::none, Rotary::interleaved, Rotary::half_split})
        for (const KvAddressing cache : {KvAddressing::contiguous, KvAddressing::paged})
          all.push_back(
              {format.head_dim, format.kv, format.groups, format.scales, format.scale_type, input, rotary, cache});
  return all;
}

std::vector<KvGather> all_gathers() {
  std::vector<KvGather> all;
  for (const auto& format : all_formats())
    for (const Element output : {Element::bf16, Element::fp16})
      for (const KvAddressing cache : {KvAddressing::contiguous, KvAddressing::paged})
        all.push_back({format.head_dim, format.kv, format.groups, format.scales, format.scale_type, output, cache});
  return all;
}

TEST(KvRowsDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  std::set<std::string> texts;
  for (const KvAppend& descriptor : all_appends()) {
    EXPECT_TRUE(texts.insert(descriptor.text()).second) << descriptor.text() << " stands for two values";
    EXPECT_EQ(kv_append::parse(descriptor.text()), descriptor) << descriptor.text();
    EXPECT_EQ(find_operator(descriptor.text()).canonical(descriptor.text()), descriptor.text());
  }
  for (const KvGather& descriptor : all_gathers()) {
    EXPECT_TRUE(texts.insert(descriptor.text()).second) << descriptor.text() << " stands for two values";
    EXPECT_EQ(kv_gather::parse(descriptor.text()), descriptor) << descriptor.text();
    EXPECT_EQ(find_operator(descriptor.text()).canonical(descriptor.text()), descriptor.text());
  }
}

using tests::Refused;

class RefusedKvRows : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedKvRows, NamesTheRule) {
  tests::expect_refused([] { find_operator(GetParam().text).canonical(GetParam().text); }, GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, RefusedKvRows,
    ::testing::Values(
        Refused{"kv_append:head_dim=72",
                "descriptor \"kv_append:head_dim=72\": 72 is not a value of head_dim; accepted: 64, 80, 96, 112, 128, "
                "160, 192, 256"},
        Refused{"kv_append:groups=1",
                "descriptor \"kv_append:groups=1\": the field groups applies to kv=int4_rows or scales=group only; "
                "leave groups out or ask for kv=int4_rows or scales=group"},
        Refused{
            "kv_append:head_dim=80,kv=int4_rows,groups=2",
            "descriptor \"kv_append:head_dim=80,kv=int4_rows,groups=2\": 80 channels in 2 groups are 40 per group, not "
            "a multiple of 16; at most 1 group for this head_dim"},
        Refused{"kv_append:rotary=neox",
                "descriptor \"kv_append:rotary=neox\": neox is not a value of rotary; accepted: none, interleaved, "
                "half_split"},
        Refused{"kv_append:output=fp16",
                "descriptor \"kv_append:output=fp16\": kv_append has no field output; accepted fields: head_dim, kv, "
                "groups, scales, scale_type, value_dim, value, value_groups, value_scales, value_scale_type, input, "
                "rotary, "
                "cache"},
        Refused{"kv_gather:rotary=none",
                "descriptor \"kv_gather:rotary=none\": kv_gather has no field rotary; accepted fields: head_dim, kv, "
                "groups, scales, scale_type, value_dim, value, value_groups, value_scales, value_scale_type, output, "
                "cache"},
        Refused{"kv_gather:kv=fp8_e4m3,value_groups=4",
                "descriptor \"kv_gather:kv=fp8_e4m3,value_groups=4\": the field value_groups applies only to values "
                "with their own format; leave value_groups out or ask for value=…"},
        Refused{"kv_append:head_dim=128,value_dim=96,kv=int4_rows,groups=4",
                "descriptor \"kv_append:kv=int4_rows,groups=4,value_dim=96\": 96 channels in 4 groups are 24 per "
                "group, not a multiple of 16; at most 2 groups for this value_dim"},
        Refused{"kv_append:kv=int8_split,groups=4",
                "descriptor \"kv_append:kv=int8_split,groups=4\": the field groups applies to scales=group only; leave "
                "groups "
                "out or ask for scales=group"},
        Refused{"kv_append:kv=fp8_e4m3,scales=group",
                "descriptor \"kv_append:kv=fp8_e4m3,scales=group\": scales=group with one group per row is "
                "scales=head; ask "
                "for groups=2, 4 or 8, or for scales=head"},
        Refused{"kv_append:head_dim=80,kv=fp8_e5m2,groups=2,scales=group",
                "descriptor \"kv_append:head_dim=80,kv=fp8_e5m2,groups=2,scales=group\": 80 channels in 2 groups are "
                "40 per "
                "group, not a multiple of 16; at most 1 group for this head_dim"},
        Refused{"kv_gather:kv=int4_rows,scale_type=fp32",
                "descriptor \"kv_gather:kv=int4_rows,scale_type=fp32\": the field scale_type applies to kv=int8_split, "
                "kv=fp8_e4m3 or kv=fp8_e5m2 only; leave scale_type out or ask for kv=int8_split, kv=fp8_e4m3 or "
                "kv=fp8_e5m2"},
        Refused{
            "kv_gather:kv=int3",
            "descriptor \"kv_gather:kv=int3\": int3 is not a value of kv; accepted: bf16, fp16, int4_rows, int8_split, "
            "fp8_e4m3, fp8_e5m2"}));

template <class Arguments>
Arguments dense_arguments(int batch, int tokens, int kv_heads, int row_elements) {
  Arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.key = address(0x1000);
  arguments.value = address(0x2000);
  arguments.cache.key = address(0x3000);
  arguments.cache.value = address(0x4000);
  for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
    strides[2] = 128;
    strides[1] = 128 * kv_heads;
    strides[0] = strides[1] * tokens;
  }
  for (std::int64_t* strides : {arguments.cache.key_strides, arguments.cache.value_strides}) {
    strides[2] = row_elements;
    strides[1] = std::int64_t{row_elements} * kv_heads;
    strides[0] = strides[1] * 100;
  }
  arguments.cache.kv_heads = kv_heads;
  arguments.cache.max_length = 100;
  arguments.batch = batch;
  arguments.tokens = tokens;
  return arguments;
}

TEST(KvRowsLaunch, HasALaneGroupForEveryRow) {
  auto arguments = dense_arguments<cubit_kv_append_arguments>(3, 7, 5, 80);
  arguments.rotary_dim = 64;
  arguments.cosines = arguments.sines = static_cast<const float*>(address(0x5000));
  arguments.rotary_stride = 32;
  const Launch launch =
      tests::encode(kv_append::parse("kv_append:kv=int4_rows,groups=4,rotary=half_split"), &arguments, small_device());
  KvAppendArguments parameters;
  ASSERT_EQ(launch.parameter_bytes, sizeof parameters);
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(launch.shape.threads, 128u);
  EXPECT_EQ(launch.shape.grid[0], (3u * 7 * 5 + 7) / 8) << "8 rows of 16 lanes in a block";
  EXPECT_EQ(parameters.rows, 3u * 7 * 5);
  EXPECT_EQ(parameters.rotary_lanes, 8);
  EXPECT_EQ(parameters.rotary_stride, 128) << "in bytes";
  EXPECT_EQ(parameters.key_strides[0], 2 * 128 * 5 * 7);
  EXPECT_EQ(parameters.cache.key_strides[1], 80 * 5) << "elements of int4_rows are bytes";
  EXPECT_EQ(parameters.cache.max_length, 100);

  auto gather = dense_arguments<cubit_kv_gather_arguments>(3, 7, 5, 256);
  for (std::int64_t* strides : {gather.key_strides, gather.value_strides})
    for (int i = 0; i < 3; ++i) strides[i] *= 2;
  const Launch wide = tests::encode(kv_gather::parse("kv_gather:head_dim=256"), &gather);
  EXPECT_EQ(wide.shape.grid[0], (3u * 7 * 5 + 3) / 4) << "4 rows of 32 lanes in a block";
}

KvAppendArguments append_parameters(int tokens, int kv_heads, const runtime::DeviceFacts& device) {
  auto arguments = dense_arguments<cubit_kv_append_arguments>(1, tokens, kv_heads, 128);
  arguments.scales.key = arguments.scales.value = address(0x7000);
  const Launch launch = tests::encode(kv_append::parse("kv_append:kv=int8_split,scales=tensor"), &arguments, device);
  KvAppendArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(launch.shape.grid[0], (parameters.rows + 7) / 8);
  return parameters;
}

TEST(KvRowsLaunch, GivesALaneGroupSeveralHeadsWhereThereAreManyRows) {
  for (const int kv_heads : {1, 2, 5, 6, 8, 12}) {
    const KvAppendArguments many = append_parameters(100000, kv_heads, small_device());
    EXPECT_EQ(many.steps, std::gcd(kv_heads, 8)) << kv_heads;
    EXPECT_EQ(many.heads.divisor * many.steps, static_cast<unsigned>(kv_heads));
    EXPECT_EQ(many.rows, 100000 * many.heads.divisor);
    EXPECT_EQ(many.key_step, 2 * 128 * many.heads.divisor) << "in bytes, from head to head of a lane group";
    EXPECT_EQ(many.cache_value_step, 128 * many.heads.divisor);
    EXPECT_EQ(append_parameters(9, kv_heads, small_device()).steps, 1);
    EXPECT_EQ(append_parameters(100000, kv_heads, tests::made_up_device("sm_80", 1000000)).steps, 1)
        << "every multiprocessor wants blocks";
  }
}

// 4 multiprocessors with 9 blocks each hold 288 rows at once. With 7 blocks each, 288 rows would take two rounds.
TEST(KvRowsLaunch, CountsTheBlocksThatTheArchitectureHolds) {
  EXPECT_EQ(append_parameters(36, 8, tests::made_up_device("sm_80", 4)).steps, 1);
  EXPECT_EQ(append_parameters(36, 8, tests::made_up_device("sm_120", 4)).steps, 2);
}

TEST(KvRowsLaunch, TakesPagesWhereTheDescriptorDoesAndOnlyThere) {
  auto arguments = dense_arguments<cubit_kv_append_arguments>(3, 7, 5, 128);
  const auto refused = [&](const char* text, const std::string& sentence) {
    try {
      tests::encode(kv_append::parse(text), &arguments, small_device());
      ADD_FAILURE() << "accepted: " << sentence;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.what(), sentence);
    }
  };
  refused("kv_append:cache=paged", "cache.page_table = NULL: the tensor is needed");
  arguments.cache.page_size = 24;
  refused("kv_append", "cache.page_size = 24: it must be 0, for the descriptor has cache=contiguous");
  arguments.cache.page_table = static_cast<const std::int32_t*>(address(0x6000));
  arguments.cache.page_size = 0;
  refused("kv_append:cache=paged", "cache.page_size = 0: it must be from 1 to 256");
  arguments.cache.page_size = 257;
  refused("kv_append:cache=paged", "cache.page_size = 257: it must be from 1 to 256");
  arguments.cache.page_size = 24;
  arguments.cache.pages = -1;
  refused("kv_append:cache=paged", "cache.pages = -1: it must not be negative");
  arguments.cache.pages = 9;
  arguments.cache.page_table_stride = 5;
  const Launch launch = tests::encode(kv_append::parse("kv_append:cache=paged"), &arguments, small_device());
  KvAppendArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.cache.page_size.divisor, 24u);
  EXPECT_EQ(parameters.cache.pages, 9);
  EXPECT_EQ(parameters.cache.page_table_stride, 5);
  EXPECT_EQ(parameters.cache.page_table, address(0x6000));
}

/// Arguments that the descriptor does not use are refused, because the launch would ignore them.
TEST(KvRowsLaunch, TakesAnglesAndPagesOnlyWhereTheDescriptorDoes) {
  const auto refused = [](void (*change)(cubit_kv_append_arguments&), const std::string& sentence) {
    auto arguments = dense_arguments<cubit_kv_append_arguments>(3, 7, 5, 128);
    change(arguments);
    tests::expect_refused([&] { tests::encode(kv_append::parse("kv_append"), &arguments, small_device()); }, sentence);
  };
  using Given = cubit_kv_append_arguments;
  const std::string rotary =
      ": the descriptor does not have rotary=interleaved or rotary=half_split; give NULL, or ask for "
      "rotary=interleaved or rotary=half_split in the descriptor";
  refused([](Given& a) { a.cosines = address<float>(0x5000); }, "cosines at 0x5000" + rotary);
  refused([](Given& a) { a.sines = address<float>(0x5100); }, "sines at 0x5100" + rotary);
  refused([](Given& a) { a.rotary_dim = 64; }, "rotary_dim = 64: it must be 0, for the descriptor has rotary=none");
  const std::string table =
      "cache.page_table at 0x6000: the descriptor does not have cache=paged; give NULL, or ask for cache=paged in the "
      "descriptor";
  refused([](Given& a) { a.cache.page_table = address<std::int32_t>(0x6000); }, table);
  refused([](Given& a) { a.cache.pages = 3; },
          "cache.pages = 3: it must be 0, for the descriptor has cache=contiguous");
  auto gather = dense_arguments<cubit_kv_gather_arguments>(3, 7, 5, 128);
  gather.cache.page_table = address<std::int32_t>(0x6000);
  tests::expect_refused([&] { tests::encode(kv_gather::parse("kv_gather"), &gather); }, table);
}

/// One scale per KV head for all tokens: launches that read scales accept it, launches that write scales refuse it.
TEST(KvRowsLaunch, WhatWritesScalesHasOneForEachToken) {
  const auto with_scales_per_head = [](auto arguments) {
    arguments.scales.key = arguments.scales.value = address(0x7000);
    arguments.scales.key_strides[2] = arguments.scales.value_strides[2] = 1;
    return arguments;
  };
  const auto gather = with_scales_per_head(dense_arguments<cubit_kv_gather_arguments>(3, 7, 5, 128));
  EXPECT_FALSE(tests::encode(kv_gather::parse("kv_gather:kv=int8_split"), &gather).empty);
  auto append = with_scales_per_head(dense_arguments<cubit_kv_append_arguments>(3, 7, 5, 128));
  const KvAppend descriptor = kv_append::parse("kv_append:kv=int8_split");
  append.scales.key_strides[0] = append.scales.value_strides[0] = 500;
  append.scales.key_strides[1] = 5;
  tests::expect_refused(
      [&] { tests::encode(descriptor, &append, small_device()); },
      "scales.value_strides[1] = 0: it must not be 0 where scales are written, for each row writes its own scale "
      "(scales=tensor has one scale for all rows, which is only read)");
  append.scales.value_strides[1] = 5;
  EXPECT_FALSE(tests::encode(descriptor, &append, small_device()).empty);
}

std::string overwriting(const std::string& given, int within) {
  return fmt::format(
      "{}: outputs would overwrite one another, for the dimensions within this stride span {}; accepted: a "
      "magnitude of {} and more",
      given, within == 1 ? "1 element" : fmt::format("{} elements", within), within);
}

// Dense caches of 3 sequences of 100 tokens of 5 KV heads. Each case changes one stride.
TEST(KvRowsLaunch, RefusesStridesWithWhichRowsOverwriteOneAnother) {
  using Given = cubit_kv_append_arguments;
  const auto refused = [](const char* text, int row, const std::string& sentence, void (*change)(Given&)) {
    auto arguments = dense_arguments<Given>(3, 7, 5, row);
    if (kv_append::parse(text).kv == KvFormat::int8_split) {
      arguments.scales.key = arguments.scales.value = address(0x7000);
      for (std::int64_t* strides : {arguments.scales.key_strides, arguments.scales.value_strides}) {
        strides[0] = 1000;
        strides[1] = 10;
        strides[2] = 2;
      }
    }
    const auto encode = [&] { tests::encode(kv_append::parse(text), &arguments, small_device()); };
    EXPECT_EQ(tests::refusal_of(encode), "accepted");
    change(arguments);
    tests::expect_refused(encode, sentence);
  };
  refused("kv_append", 128, overwriting("cache.key_strides[0] = 0", 128), [](Given& a) { a.cache.key_strides[0] = 0; });
  refused("kv_append", 128, overwriting("cache.key_strides[1] = 8", 128), [](Given& a) { a.cache.key_strides[1] = 8; });
  refused("kv_append", 128, overwriting("cache.key_strides[1] = 632", 640),
          [](Given& a) { a.cache.key_strides[1] = 632; });
  refused("kv_append", 128, overwriting("cache.value_strides[2] = -120", 128),
          [](Given& a) { a.cache.value_strides[2] = -120; });
  refused("kv_append", 128, overwriting("cache.value_strides[0] = 63992", 64000),
          [](Given& a) { a.cache.value_strides[0] = 63992; });
  refused("kv_append:kv=int4_rows,groups=4", 80, overwriting("cache.key_strides[2] = 76", 80),
          [](Given& a) { a.cache.key_strides[2] = 76; });
  const char* const grouped = "kv_append:kv=int8_split,groups=2,scales=group";
  refused(grouped, 128, overwriting("scales.key_strides[2] = 1", 2), [](Given& a) { a.scales.key_strides[2] = 1; });
  refused(grouped, 128, overwriting("scales.value_strides[0] = 999", 1000),
          [](Given& a) { a.scales.value_strides[0] = 999; });
  const auto gather_refused = [](const std::string& sentence, void (*change)(cubit_kv_gather_arguments&)) {
    auto arguments = dense_arguments<cubit_kv_gather_arguments>(3, 7, 5, 128);
    change(arguments);
    tests::expect_refused([&] { tests::encode(kv_gather::parse("kv_gather"), &arguments); }, sentence);
  };
  gather_refused(overwriting("key_strides[1] = 0", 128), [](auto& a) { a.key_strides[1] = 0; });
  gather_refused(overwriting("value_strides[0] = 4472", 4480), [](auto& a) { a.value_strides[0] = 4472; });
}

TEST(KvRowsLaunch, TakesStridesOfAnyOrderAndSignThatKeepRowsApart) {
  const auto encode = [](const char* text, void (*change)(cubit_kv_append_arguments&)) {
    auto arguments = dense_arguments<cubit_kv_append_arguments>(3, 7, 5, 128);
    change(arguments);
    return tests::refusal_of([&] { tests::encode(kv_append::parse(text), &arguments, small_device()); });
  };
  const auto heads_outside = [](cubit_kv_append_arguments& a) {
    for (std::int64_t* strides : {a.cache.key_strides, a.cache.value_strides}) {
      strides[1] = -128;
      strides[2] = 12800;
    }
  };
  EXPECT_EQ(encode("kv_append", heads_outside), "accepted");
  const auto one_token = [](cubit_kv_append_arguments& a) {
    a.cache.max_length = 1;
    for (std::int64_t* strides : {a.cache.key_strides, a.cache.value_strides}) strides[1] = 0;
  };
  EXPECT_EQ(encode("kv_append", one_token), "accepted") << "a stride that nothing is multiplied by";
  const auto farthest = [](cubit_kv_append_arguments& a) {
    a.cache.max_length = std::numeric_limits<std::int32_t>::max();
    for (std::int64_t* strides : {a.cache.key_strides, a.cache.value_strides}) {
      strides[0] = 640;
      strides[1] = std::int64_t{1} << 48;
    }
  };
  EXPECT_EQ(encode("kv_append", farthest), "accepted");
  const auto paged = [](cubit_kv_append_arguments& a) {
    a.cache.page_table = address<std::int32_t>(0x6000);
    a.cache.page_size = 16;
    a.cache.pages = 4;
    for (std::int64_t* strides : {a.cache.key_strides, a.cache.value_strides}) strides[0] = 16 * 640;
  };
  EXPECT_EQ(encode("kv_append:cache=paged", paged), "accepted");
  const auto overlapping_pages = [](cubit_kv_append_arguments& a) {
    a.cache.page_table = address<std::int32_t>(0x6000);
    a.cache.page_size = 16;
    a.cache.pages = 4;
    a.cache.key_strides[0] = 15 * 640;
  };
  EXPECT_EQ(encode("kv_append:cache=paged", overlapping_pages), overwriting("cache.key_strides[0] = 9600", 10240));
}

TEST(KvRowsLaunch, OfNothingIsEmptyWhateverThePointers) {
  for (const bool no_batch : {true, false}) {
    cubit_kv_append_arguments append{};
    append.size = sizeof append;
    append.cache.kv_heads = 1;
    append.batch = no_batch ? 0 : 4;
    append.tokens = no_batch ? 4 : 0;
    EXPECT_TRUE(tests::encode(kv_append::parse("kv_append"), &append, small_device()).empty);
    cubit_kv_gather_arguments gather{};
    gather.size = sizeof gather;
    gather.cache.kv_heads = 1;
    gather.batch = no_batch ? 0 : 4;
    gather.tokens = no_batch ? 4 : 0;
    EXPECT_TRUE(tests::encode(kv_gather::parse("kv_gather"), &gather).empty);
  }
}

using AppendChange = void (*)(cubit_kv_append_arguments&);

struct BadLaunch {
  const char* sentence;
  AppendChange change;
};

class RefusedKvLaunch : public ::testing::TestWithParam<BadLaunch> {};

TEST_P(RefusedKvLaunch, NamesTheRule) {
  auto arguments = dense_arguments<cubit_kv_append_arguments>(3, 7, 5, 128);
  arguments.rotary_dim = 64;
  arguments.cosines = arguments.sines = static_cast<const float*>(address(0x5000));
  arguments.rotary_stride = 32;
  const KvAppend descriptor = kv_append::parse("kv_append:rotary=interleaved");
  EXPECT_FALSE(tests::encode(descriptor, &arguments, small_device()).empty);
  GetParam().change(arguments);
  try {
    tests::encode(descriptor, &arguments, small_device());
    FAIL() << "accepted: " << GetParam().sentence;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    EXPECT_NE(std::string(failure.what()).find(GetParam().sentence), std::string::npos) << failure.what();
  }
}

using Given = cubit_kv_append_arguments;

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedKvLaunch,
    ::testing::Values(BadLaunch{"this library's struct has", [](Given& a) { a.size = 8; }},
                      BadLaunch{"batch = -1: it must not be negative", [](Given& a) { a.batch = -1; }},
                      BadLaunch{"tokens = -1: it must not be negative", [](Given& a) { a.tokens = -1; }},
                      BadLaunch{"cache.kv_heads = 0: it must be at least 1", [](Given& a) { a.cache.kv_heads = 0; }},
                      BadLaunch{"batch * tokens = 4611686014132420609: it must be at most 2147483647",
                                [](Given& a) { a.batch = a.tokens = std::numeric_limits<std::int32_t>::max(); }},
                      BadLaunch{"batch * tokens * cache.kv_heads = 5000000000: it must be at most 2147483647",
                                [](Given& a) {
                                  a.batch = 1000;
                                  a.tokens = 1000000;
                                }},
                      BadLaunch{"cache.max_length = -1: it must not be negative",
                                [](Given& a) { a.cache.max_length = -1; }},
                      BadLaunch{"key = NULL", [](Given& a) { a.key = nullptr; }},
                      BadLaunch{"value = NULL", [](Given& a) { a.value = nullptr; }},
                      BadLaunch{"cache.key = NULL", [](Given& a) { a.cache.key = nullptr; }},
                      BadLaunch{"cache.value = NULL", [](Given& a) { a.cache.value = nullptr; }},
                      BadLaunch{"key at 0x1008: the address is not a multiple of 16 bytes",
                                [](Given& a) { a.key = address(0x1008); }},
                      BadLaunch{"value stride 1 of 2 bytes: it is not a multiple of 16 bytes",
                                [](Given& a) { a.value_strides[1] = 1; }},
                      BadLaunch{"cache.key stride 2 of 260 bytes: it is not a multiple of 16 bytes",
                                [](Given& a) { a.cache.key_strides[2] = 130; }},
                      BadLaunch{"lengths at 0x2: the address is not a multiple of 4 bytes",
                                [](Given& a) { a.lengths = static_cast<const std::int32_t*>(address(2)); }},
                      BadLaunch{"rotary_dim = 8: it must be a multiple of 16 from 16 to head_dim",
                                [](Given& a) { a.rotary_dim = 8; }},
                      BadLaunch{"rotary_dim = 144: it must be a multiple of 16", [](Given& a) { a.rotary_dim = 144; }},
                      BadLaunch{"cosines = NULL", [](Given& a) { a.cosines = nullptr; }},
                      BadLaunch{"sines stride 0 of 12 bytes: it is not a multiple of 16 bytes", [](Given& a) {
                                  a.cosines = nullptr;
                                  a.cosines = a.sines;
                                  a.rotary_stride = 3;
                                }}));

// Compiles every thirty-first descriptor for one architecture, in rotation. Descriptors whose values are stored
// differently from keys are also compiled for two later architectures. tests/cover compiles every pair of field values.
TEST(KvRowsPlan, CompilesForEveryArchitectureWithoutSpills) {
  constexpr int kMostRegisters = 72;  // 7 blocks of 128 threads fit an SM
  std::vector<std::string> texts;
  for (const KvAppend& descriptor : all_appends()) texts.push_back(descriptor.text());
  for (const KvGather& descriptor : all_gathers()) texts.push_back(descriptor.text());
  std::vector<tests::KernelFor> kernels = tests::some_in_turn(texts, 31);
  for (KvAppend descriptor : tests::mixed_rows_descriptors<KvAppend>()) {
    kernels.push_back({descriptor.text(), kernels.size() % 2 == 0 ? "sm_100a" : "sm_120"});
    descriptor.rotary = Rotary::half_split;
    kernels.push_back({descriptor.text(), "sm_100a"});
  }
  tests::expect_no_spills(kernels, kMostRegisters);
}

}  // namespace
}  // namespace cubit::ops
