// Tests of <cubit/w4_evidence.hpp>: each contradiction between a checkpoint's own words and the way it is read gives
// one sentence with the evidence, and an ordinary checkpoint gives none.
#include <cubit/w4_evidence.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cubit {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kEights = 0x88888888;
constexpr std::uint32_t kSevens = 0x77777777;
constexpr std::uint32_t kMixed = 0x87878798;

std::string warning_of(const W4Reading& reading, std::uint32_t zeros, const W4Config& config = {"config.json"}) {
  W4Evidence evidence({config});
  const std::vector<std::uint32_t> words(reading.format == W4Format::symmetric ? 0 : 4, zeros);
  evidence.add("layer", reading, words);
  return evidence.warning();
}

W4Reading reading_of(W4Format format, int bits = 4) { return {format, bits, 256, 2, false}; }

TEST(W4Evidence, FindsTheZeroThatAllPlacesHave) {
  EXPECT_EQ(common_stored_zero(4, std::vector(3, kEights)), 8);
  EXPECT_EQ(common_stored_zero(8, std::vector(3, 0x80808080u)), 128);
  EXPECT_EQ(common_stored_zero(8, std::vector(3, kEights)), 0x88);
  EXPECT_EQ(common_stored_zero(4, std::vector(3, kMixed)), std::nullopt);
  EXPECT_EQ(common_stored_zero(4, std::vector{kEights, kSevens}), std::nullopt);
  EXPECT_EQ(common_stored_zero(4, {}), std::nullopt);
}

TEST(W4Evidence, ZerosOfTheOtherVersion) {
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq), kEights),
            "the weights are read as gptq, but every stored zero is 8, as in a symmetric file of gptq_v2; if that is "
            "right, read them as gptq_v2");
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq_v2), kSevens),
            "the weights are read as gptq_v2, but every stored zero is 7, as in a symmetric file of gptq; if that is "
            "right, read them as gptq");
  EXPECT_THAT(warning_of(reading_of(W4Format::gptq, 8), 0x80808080), HasSubstr("every stored zero is 128"));
  EXPECT_THAT(warning_of(reading_of(W4Format::gptq_v2, 8), 0x7f7f7f7f), HasSubstr("every stored zero is 127"));
}

TEST(W4Evidence, OrdinaryCheckpointsGiveNone) {
  const W4Config plain{"config.json", "gptq", 4, 128, true, false};
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq), kSevens, plain), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq), kMixed, {"config.json", {}, 4, 128, false, false}), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq_v2), kEights, {"config.json", "gptq_v2", 4, 128, true}), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq, 8), 0x7f7f7f7f, {"config.json", "gptq", 8, 128, true}), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::awq), kEights, {"config.json", {}, 4, 128}), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::awq), kSevens), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::symmetric), 0, plain), "");
  EXPECT_EQ(warning_of({W4Format::gptq, 4, 256, 1, false}, kSevens, {"config.json", {}, 4, -1, {}, true}), "");
  EXPECT_EQ(warning_of({W4Format::gptq, 4, 256, 2, true}, kMixed, {"config.json", {}, 4, 128, false, true}), "");
  EXPECT_EQ(warning_of({W4Format::gptq, 4, 64, 4, true}, kMixed, {"config.json", {}, 4, 64, false, true}), "");
  EXPECT_EQ(warning_of(reading_of(W4Format::gptq), kMixed, {"config.json", {}, 4, 128, false, true, true}), "");
  EXPECT_EQ(warning_of({W4Format::gptq, 4, 200, 2, false}, kMixed, {"config.json", {}, 4, 128}), "");
}

TEST(W4Evidence, StatementsOfTheConfig) {
  const auto says = [](const W4Reading& reading, const W4Config& config, std::uint32_t zeros = kMixed) {
    return warning_of(reading, zeros, config);
  };
  const W4Reading gptq = reading_of(W4Format::gptq);
  EXPECT_EQ(says(gptq, {"config.json", "gptq_v2"}),
            "the weights are read as gptq, but config.json says checkpoint_format=gptq_v2; if that is right, read them "
            "as gptq_v2");
  EXPECT_THAT(says(reading_of(W4Format::gptq_v2), {"q.json", "gptq"}),
              HasSubstr("q.json says checkpoint_format=gptq;"));
  EXPECT_THAT(says(reading_of(W4Format::awq), {"q.json", "gptq"}), HasSubstr("q.json says checkpoint_format=gptq;"));
  EXPECT_EQ(says(gptq, {"q.json", "marlin"}), "");
  EXPECT_THAT(says(gptq, {"q.json", {}, 8}), HasSubstr("q.json says bits=8 and not 4; if that is right, ask for what"));
  EXPECT_THAT(says(gptq, {"q.json", {}, {}, 64}), HasSubstr("q.json says group_size=64, and k = 256 has 2 groups"));
  EXPECT_THAT(says(gptq, {"q.json", {}, {}, -1}), HasSubstr("q.json says group_size=-1, and k = 256 has 2 groups"));
  EXPECT_THAT(says({W4Format::gptq, 4, 256, 1}, {"q.json", {}, {}, 128}), HasSubstr("k = 256 has 1 group;"));
  EXPECT_THAT(says(gptq, {"q.json", {}, {}, {}, true}), HasSubstr("q.json says sym=true, and the zeros differ"));
  EXPECT_THAT(says(gptq, {"q.json", {}, {}, {}, true}, 0x66666666), HasSubstr("and every zero is read as 7"));
  EXPECT_THAT(says(reading_of(W4Format::symmetric), {"q.json", {}, {}, {}, false}), HasSubstr("q.json says sym=false"));
  EXPECT_THAT(says(gptq, {"q.json", {}, {}, {}, {}, true}), HasSubstr("desc_act=true, and activation_order is false"));
  EXPECT_THAT(says({W4Format::gptq, 4, 256, 2, true}, {"q.json", {}, {}, {}, {}, false}),
              HasSubstr("desc_act=false, and activation_order is true"));
  EXPECT_EQ(says({W4Format::gptq, 4, 256, 2}, {"q.json", {}, {}, {}, {}, true}), "");
}

TEST(W4Evidence, OfPackedLayersNamesNoOtherFormat) {
  const W4Reading packed = {W4Format::gptq_v2, 4, 256, 2, {}, true};
  EXPECT_EQ(warning_of(packed, kSevens), "");
  EXPECT_EQ(warning_of(packed, kMixed, {"config.json", "gptq"}), "");
  EXPECT_EQ(warning_of(packed, kMixed, {"config.json", "gptq", 8}),
            "the weights are read as packed, but config.json says bits=8 and not 4; if that is right, ask for what the "
            "checkpoint has");
}

TEST(W4Evidence, AllOfItIsOneSentenceUnderThreeLines) {
  const std::string warning =
      warning_of(reading_of(W4Format::gptq), kEights, {"quantize_config.json", "gptq_v2", 8, 64, true, true});
  for (const char* part : {"every stored zero is 8", "checkpoint_format=gptq_v2", "bits=8", "group_size=64", "sym=true",
                           "desc_act=true", "read them as gptq_v2"})
    EXPECT_THAT(warning, HasSubstr(part));
  EXPECT_EQ(warning.find('\n'), std::string::npos);
}

TEST(W4Evidence, CountsTheLayersThatContradict) {
  W4Evidence evidence({});
  EXPECT_EQ(evidence.warning(), "");
  evidence.add("a", reading_of(W4Format::gptq), std::vector(1, kMixed));
  EXPECT_EQ(evidence.warning(), "");
  evidence.add("b", reading_of(W4Format::gptq), std::vector(1, kEights));
  evidence.add("c", reading_of(W4Format::gptq), std::vector(1, kEights));
  EXPECT_THAT(evidence.warning(), HasSubstr("every stored zero is 8, as in a symmetric file of gptq_v2 (2 of 3 layers, "
                                            "first b); if that is right"));
}

}  // namespace
}  // namespace cubit
