#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cubit/smooth.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "files/output_file.hpp"
#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

constexpr std::size_t kHidden = 24;
constexpr std::size_t kInner = 40;
constexpr std::size_t kTokens = 9;

struct Weights {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Checkpoint = std::map<std::string, Weights>;
using Rows = std::vector<std::vector<double>>;  ///< tokens of channels

/// A transformer block as the architecture spells it. The norm before attention, its readers, and so on.
struct Block {
  const char* model_type;
  std::string norm1, norm2;
  std::vector<std::string> readers1, readers2;
  std::string after1, after2;  ///< the layers behind attention and behind the activation function
  bool has_mean;               ///< LayerNorm instead of RMSNorm
  bool adds_one;
  bool input_first;
};

Block llama_like(const char* type, bool adds_one, const char* norm2) {
  const std::string layer = "model.layers.3.";
  return {type,
          layer + "input_layernorm",
          layer + norm2,
          {layer + "self_attn.q_proj", layer + "self_attn.k_proj", layer + "self_attn.v_proj"},
          {layer + "mlp.gate_proj", layer + "mlp.up_proj"},
          layer + "self_attn.o_proj",
          layer + "mlp.down_proj",
          false,
          adds_one,
          false};
}

std::vector<Block> blocks() {
  return {llama_like("llama", false, "post_attention_layernorm"),
          llama_like("mistral", false, "post_attention_layernorm"),
          llama_like("qwen2", false, "post_attention_layernorm"),
          llama_like("qwen3", false, "post_attention_layernorm"),
          llama_like("gemma", true, "post_attention_layernorm"),
          llama_like("gemma2", true, "pre_feedforward_layernorm"),
          {"gpt2",
           "transformer.h.3.ln_1",
           "transformer.h.3.ln_2",
           {"transformer.h.3.attn.c_attn"},
           {"transformer.h.3.mlp.c_fc"},
           "transformer.h.3.attn.c_proj",
           "transformer.h.3.mlp.c_proj",
           true,
           false,
           true}};
}

Weights random_weights(std::mt19937& random, std::vector<std::int64_t> shape, float deviation) {
  std::normal_distribution<float> normal(0, deviation);
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  Weights made{std::move(shape), std::vector<float>(count)};
  for (float& value : made.values) value = normal(random);
  return made;
}

Checkpoint random_checkpoint(const Block& block, std::mt19937& random) {
  Checkpoint made;
  const auto layer = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    made[name + ".weight"] =
        random_weights(random, block.input_first ? std::vector{in, out} : std::vector{out, in}, 0.3F);
    made[name + ".bias"] = random_weights(random, {out}, 0.3F);
  };
  for (const std::string& norm : {block.norm1, block.norm2}) {
    made[norm + ".weight"] = random_weights(random, {kHidden}, 1);
    made[norm + ".weight"].values[5] *= 60;  // an outlier channel
    if (block.has_mean) made[norm + ".bias"] = random_weights(random, {kHidden}, 0.5F);
  }
  const bool is_fused = block.readers1.size() == 1;
  for (const std::string& name : block.readers1) layer(name, kHidden, is_fused ? 3 * kHidden : kHidden);
  layer(block.after1, kHidden, kHidden);
  for (const std::string& name : block.readers2) layer(name, kHidden, kInner);
  layer(block.after2, kInner, kHidden);
  return made;
}

/// The reference: the block in double precision.
class Reference {
 public:
  Reference(const Block& block, const Checkpoint& checkpoint) : block_(block), checkpoint_(checkpoint) {}

  Rows norm(const std::string& name, const Rows& rows) const {
    const std::vector<float>& weight = checkpoint_.at(name + ".weight").values;
    Rows made = rows;
    for (auto& row : made) {
      double mean = 0;
      double square = 0;
      for (const double value : row) mean += block_.has_mean ? value / kHidden : 0;
      for (const double value : row) square += (value - mean) * (value - mean) / kHidden;
      for (std::size_t i = 0; i < kHidden; ++i) {
        row[i] = (row[i] - mean) / std::sqrt(square + 1e-6) * (weight[i] + (block_.adds_one ? 1.0 : 0.0));
        if (block_.has_mean) row[i] += checkpoint_.at(name + ".bias").values[i];
      }
    }
    return made;
  }
  Rows layer(const std::string& name, const Rows& rows) const {
    const Weights& weight = checkpoint_.at(name + ".weight");
    const std::vector<float>& bias = checkpoint_.at(name + ".bias").values;
    const std::size_t in = rows[0].size();
    const std::size_t out = bias.size();
    Rows made;
    for (const auto& row : rows) {
      std::vector<double> sums(bias.begin(), bias.end());
      for (std::size_t o = 0; o < out; ++o)
        for (std::size_t i = 0; i < in; ++i)
          sums[o] += row[i] * weight.values[block_.input_first ? i * out + o : o * in + i];
      made.push_back(sums);
    }
    return made;
  }
  Rows operator()(const Rows& inputs) const {
    Rows hidden = added(inputs, layer(block_.after1, attention(norm(block_.norm1, inputs))));
    return added(hidden, layer(block_.after2, inner(norm(block_.norm2, hidden))));
  }

 private:
  static Rows added(Rows a, const Rows& b) {
    for (std::size_t t = 0; t < a.size(); ++t)
      for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
    return a;
  }
  Rows attention(const Rows& inputs) const {
    std::vector<Rows> parts;
    for (const std::string& name : block_.readers1) parts.push_back(layer(name, inputs));
    const std::size_t step = parts.size() == 1 ? kHidden : 0;  // GPT-2 stores the three layers as one
    parts.resize(3, parts[0]);
    Rows made(inputs.size(), std::vector<double>(kHidden));
    for (std::size_t query = 0; query < inputs.size(); ++query) {
      std::vector<double> weights(query + 1);
      double total = 0;
      for (std::size_t key = 0; key <= query; ++key) {
        double score = 0;
        for (std::size_t i = 0; i < kHidden; ++i) score += parts[0][query][i] * parts[1][key][step + i];
        total += weights[key] = std::exp(std::tanh(score / 1e4));
      }
      for (std::size_t key = 0; key <= query; ++key)
        for (std::size_t i = 0; i < kHidden; ++i) made[query][i] += weights[key] / total * parts[2][key][2 * step + i];
    }
    return made;
  }
  Rows inner(const Rows& inputs) const {
    Rows made = layer(block_.readers2[0], inputs);
    const Rows up = layer(block_.readers2.back(), inputs);
    for (std::size_t t = 0; t < made.size(); ++t)
      for (std::size_t i = 0; i < kInner; ++i)
        made[t][i] = made[t][i] / (1 + std::exp(-made[t][i])) * (block_.readers2.size() > 1 ? up[t][i] : 1);
    return made;
  }

  const Block& block_;
  const Checkpoint& checkpoint_;
};

Rows random_rows(std::mt19937& random) {
  std::normal_distribution<double> normal;
  Rows rows(kTokens, std::vector<double>(kHidden));
  for (auto& row : rows)
    for (double& value : row) value = normal(random);
  return rows;
}

Tensor weight_tensor(const Weights& weights) { return tensor_of("F32", weights.shape, weights.values); }
std::span<std::byte> bytes_of(Weights& weights) { return std::as_writable_bytes(std::span(weights.values)); }

SmoothSearch search_of(const Rows& inputs) {
  std::vector<double> magnitudes(kHidden);
  std::vector<float> tokens;
  for (const auto& row : inputs)
    for (std::size_t i = 0; i < kHidden; ++i) {
      magnitudes[i] = std::max(magnitudes[i], std::abs(row[i]));
      tokens.push_back(static_cast<float>(row[i]));
    }
  return {magnitudes, tokens};
}

std::vector<TensorName> names_of(const Checkpoint& checkpoint) {
  std::vector<TensorName> names;
  for (const auto& [name, weights] : checkpoint) names.push_back({name, weights.shape.size()});
  return names;
}

void fold(const SmoothGroup& group, const Mapping& mapping, std::vector<float> factors, Checkpoint& checkpoint) {
  std::span<std::byte> bias;
  if (checkpoint.contains(group.norm + ".bias")) bias = bytes_of(checkpoint[group.norm + ".bias"]);
  fold_norm({"F32", bytes_of(checkpoint[group.norm + ".weight"])}, {"F32", bias}, mapping.norm_adds_one(), factors);
  for (const std::string& layer : group.layers) {
    Weights& weight = checkpoint[layer + ".weight"];
    const auto columns = static_cast<std::uint64_t>(weight.shape[1]);
    const auto bytes = bytes_of(weight);
    const std::size_t cut = bytes.size() / 3 / sizeof(float) * sizeof(float);  // within a row
    fold_weight({"F32", bytes.first(cut)}, 0, columns, mapping.input_first(), factors);
    fold_weight({"F32", bytes.subspan(cut)}, cut / sizeof(float), columns, mapping.input_first(), factors);
  }
}

double difference(const Rows& a, const Rows& b) {
  double error = 0;
  double square = 0;
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      error += (a[t][i] - b[t][i]) * (a[t][i] - b[t][i]);
      square += b[t][i] * b[t][i];
    }
  return std::sqrt(error / square);
}

TEST(Smoothing, AFoldedBlockComputesTheSameFunction) {
  for (const Block& block : blocks()) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(std::string(block.model_type) + ", seed " + std::to_string(seed));
      std::mt19937 random(seed);
      const Checkpoint before = random_checkpoint(block, random);
      const Rows inputs = random_rows(random);
      const Reference reference(block, before);
      const Mapping mapping = Mapping::of_model_type(block.model_type);
      const SmoothPlan plan = mapping.plan(names_of(before));
      ASSERT_EQ(plan.groups.size(), 2);
      EXPECT_EQ(plan.not_smoothed.size(), 2);
      Checkpoint after = before;
      for (const SmoothGroup& group : plan.groups) {
        EXPECT_EQ(group.layers, group.norm == block.norm1 ? block.readers1 : block.readers2);
        const Rows seen = reference.norm(group.norm, inputs);
        SmoothSearch search = search_of(seen);
        for (const std::string& layer : group.layers)
          search.add_layer(weight_tensor(before.at(layer + ".weight")), mapping.input_first());
        const double alpha = 0.125 * seed;
        const Smoothing made = search.with_alpha(alpha);
        for (std::size_t i = 0; i < kHidden; ++i)
          EXPECT_NEAR(made.factors[i], std::pow(search.inputs()[i], alpha) / std::pow(search.weights()[i], 1 - alpha),
                      1e-5 * made.factors[i]);
        fold(group, mapping, made.factors, after);
      }
      EXPECT_NE(after.at(block.norm1 + ".weight").values, before.at(block.norm1 + ".weight").values);
      EXPECT_LT(difference(Reference(block, after)(inputs), reference(inputs)), 1e-6);
    }
  }
}

TEST(Smoothing, SearchFindsAnAlphaThatHelps) {
  for (const Block& block : blocks()) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(std::string(block.model_type) + ", seed " + std::to_string(seed));
      std::mt19937 random(seed);
      const Checkpoint checkpoint = random_checkpoint(block, random);
      SmoothSearch search = search_of(Reference(block, checkpoint).norm(block.norm1, random_rows(random)));
      for (const std::string& layer : block.readers1)
        search.add_layer(weight_tensor(checkpoint.at(layer + ".weight")), block.input_first);
      const Smoothing found = search.search();
      EXPECT_LT(found.error, found.error_before);
      ASSERT_TRUE(found.alpha);
      EXPECT_EQ(found.error, search.with_alpha(*found.alpha).error);
    }
  }
}

TEST(Smoothing, AnErrorThatIsNoNumberIsNeverTheLeast) {
  // With alpha = 0 the input's scale exceeds the largest float.
  SmoothSearch search({1e36, 1}, {1, 1});
  const std::vector<std::int64_t> shape = {1, 2};
  search.add_layer(tensor_of("F32", shape, std::vector<float>{1e5F, 1}), false);
  EXPECT_TRUE(std::isnan(search.with_alpha(0).error));
  const Smoothing found = search.search();
  EXPECT_LE(found.error, found.error_half);
  EXPECT_LE(found.error, found.error_before);
}

TEST(Smoothing, TheErrorIsThatOfInt8) {
  // The problem has one token and one output. The scale of the inputs is 1 and that of the weights is 2: 0.4 rounds to
  // 0, and 3 rounds to 4.
  SmoothSearch search({127, 0.4}, {127, 0.4F});
  const std::vector<std::int64_t> shape = {1, 2};
  search.add_layer(tensor_of("F32", shape, std::vector<float>{3, 254}), false);
  const double exact = 127 * 3 + 0.4F * 254;
  EXPECT_NEAR(search.with_alpha(0.5).error_before, std::pow((127 * 4 - exact) / exact, 2), 1e-6);
}

TEST(Smoothing, NothingIsChangedWhereNoAlphaHelps) {
  // All values are multiples of the scales, so quantisation without smoothing is exact.
  SmoothSearch search({127, 127}, {127, 3, -127, 90});
  const std::vector<std::int64_t> shape = {2, 2};
  search.add_layer(tensor_of("F32", shape, std::vector<float>{127, 5, 127, -77}), false);
  const Smoothing found = search.search();
  EXPECT_FALSE(found.alpha);
  EXPECT_EQ(found.error, found.error_before);
  EXPECT_EQ(found.factors, std::vector<float>(2, 1));
}

TEST(Smoothing, ChannelsOfZerosKeepTheirWeights) {
  SmoothSearch search({0, 2, 1}, {0, 2, 1});
  const std::vector<std::int64_t> shape = {1, 3};
  search.add_layer(tensor_of("F32", shape, std::vector<float>{1, 0, 4}), false);
  EXPECT_EQ(search.with_alpha(0.5).factors, (std::vector<float>{1, 1, 0.5}));
}

TEST(Smoothing, FactorsFollowTheRoundingOfTheNorm) {
  std::vector<std::uint16_t> weight = {0x3F80, 0x4040, 0};  // 1, 3 and 0 in bf16
  std::vector<float> factors = {3, 1.1F, 2};
  fold_norm({"BF16", std::as_writable_bytes(std::span(weight))}, {}, false, factors);
  EXPECT_EQ(weight, (std::vector<std::uint16_t>{0x3EAB, 0x402F, 0}));
  EXPECT_EQ(factors[0], 1 / 0.333984375F);
  EXPECT_EQ(factors[1], 3 / 2.734375F);
  EXPECT_EQ(factors[2], 2);
  // 1 + w of Gemma: bf16 has no number near -1 + 1 / 3000 but -1 itself, which would lose the channel.
  weight = {0, 0};
  factors = {3000, 4};
  fold_norm({"BF16", std::as_writable_bytes(std::span(weight))}, {}, true, factors);
  EXPECT_EQ(weight, (std::vector<std::uint16_t>{0, 0xBF40}));
  EXPECT_EQ(factors, (std::vector<float>{1, 4}));
}

TEST(Smoothing, RoundsToHalfPrecision) {
  const auto folded = [](std::uint16_t bits, float factor) {
    fold_weight({"F16", std::as_writable_bytes(std::span(&bits, 1))}, 0, 1, false, {&factor, 1});
    return bits;
  };
  for (const int bits : {0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x8001, 0xfbff, 0x7c00})
    EXPECT_EQ(folded(static_cast<std::uint16_t>(bits), 1), bits);
  EXPECT_EQ(folded(0x3c01, 0.5F), 0x3801);
  EXPECT_EQ(folded(0x0003, 0.5F), 0x0002);  // a tie between 1 and 2 goes to the even code
  EXPECT_EQ(folded(0x3c01, 1 + 0x1p-11F), 0x3c02);
}

template <class Work>
std::string sentence_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    return error.what();
  }
  return "no error";
}

constexpr const char* kMapping = R"({"norm": "weight", "layout": "out,in",
  "smoothed": [{"norm": "b.{}.norm", "layers": ["b.{}.x", "b.{}.y"]}]})";

TEST(Mapping, FindsGroupsBehindAnyPrefix) {
  const std::vector<TensorName> names = {{"a.b.0.norm.weight", 1}, {"a.b.0.x.weight", 2},  {"a.b.0.y.weight", 2},
                                         {"b.12.norm.weight", 1},  {"b.12.x.weight", 2},   {"b.12.y.weight", 2},
                                         {"other.weight", 2},      {"xb.1.norm.weight", 1}};
  const SmoothPlan plan = Mapping::parse(kMapping, "m").plan(names);
  ASSERT_EQ(plan.groups.size(), 2);
  EXPECT_EQ(plan.groups[0].norm, "a.b.0.norm");
  EXPECT_EQ(plan.groups[0].layers, (std::vector<std::string>{"a.b.0.x", "a.b.0.y"}));
  EXPECT_EQ(plan.groups[1].layers, (std::vector<std::string>{"b.12.x", "b.12.y"}));
  ASSERT_EQ(plan.not_smoothed.size(), 1);
  EXPECT_EQ(plan.not_smoothed[0].layer, "other");
  EXPECT_EQ(plan.not_smoothed[0].reason, "the mapping names no norm before it");
}

TEST(Mapping, BertHasNothingToSmooth) {
  const std::vector<TensorName> names = {{"bert.encoder.layer.0.attention.self.query.weight", 2},
                                         {"bert.encoder.layer.0.attention.output.LayerNorm.weight", 1},
                                         {"bert.encoder.layer.0.attention.output.dense.weight", 2},
                                         {"bert.encoder.layer.0.output.dense.weight", 2}};
  const SmoothPlan plan = Mapping::of_model_type("bert").plan(names);
  EXPECT_TRUE(plan.groups.empty());
  ASSERT_EQ(plan.not_smoothed.size(), 3);
  EXPECT_EQ(plan.not_smoothed[0].reason, "the norm before it also feeds the residual connection");
  EXPECT_EQ(plan.not_smoothed[1].reason, "its input is the output of attention, not of a norm");
  EXPECT_EQ(plan.not_smoothed[2].reason, "its input is the output of an activation function, not of a norm");
}

TEST(Mapping, KnowsTheLayoutOfEachLayer) {
  const std::optional<Mapping> gpt2 = Mapping::find("gpt2");
  ASSERT_TRUE(gpt2.has_value());
  EXPECT_TRUE(gpt2->stores_input_first("transformer.h.3.attn.c_attn"));
  EXPECT_TRUE(gpt2->stores_input_first("h.11.mlp.c_proj"));
  EXPECT_FALSE(gpt2->stores_input_first("lm_head"));
  EXPECT_FALSE(gpt2->stores_input_first("score"));
  EXPECT_FALSE(Mapping::of_model_type("llama").stores_input_first("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(Mapping::find("t5").has_value());
}

TEST(Mapping, ErrorsAreSentences) {
  const auto parsed = [](const std::string& text) { return sentence_of([&] { Mapping::parse(text, "m.json"); }); };
  EXPECT_EQ(parsed("[]"), "m.json: is not a JSON object; give a mapping as docs/calibration.md describes it");
  EXPECT_EQ(parsed("{}"), "m.json: lacks the member \"norm\"; give a mapping as docs/calibration.md describes it");
  EXPECT_EQ(parsed(R"({"norm": "w"})"), "m.json, \"norm\": \"w\": is unknown; accepted: \"weight\", \"1 + weight\"");
  EXPECT_EQ(parsed(R"({"norm": "weight", "layout": "out,in", "smoothed": [{"norm": "n", "layers": ["x", "x"]}]})"),
            "m.json, x: is named twice; give each norm one group, with all layers that read the norm");
  const std::vector<TensorName> names = {{"b.0.norm.weight", 1}, {"b.0.x.weight", 2}};
  EXPECT_EQ(sentence_of([&] { Mapping::parse(kMapping, "m").plan(names); }),
            "norm b.0.norm: feeds the layer b.0.y, whose weight the checkpoint does not have; give a checkpoint in 16 "
            "or 32 bits, and a mapping with all layers that read the norm");
  EXPECT_NE(sentence_of([] { Mapping::of_model_type("t5"); }).find("gpt2"), std::string::npos);
}

TEST(Smoothing, ErrorsAreSentences) {
  const std::vector<std::int64_t> shape = {1, 2};
  SmoothSearch search({1, 2}, {1, 2});
  EXPECT_EQ(sentence_of([&] {
              search.add_layer(tensor_of("F32", shape, std::vector<float>{1, 2}), true);
            }),
            "a layer's weight: does not have 2 input channels; give the activations and the layout of this checkpoint");
  EXPECT_EQ(sentence_of([&] { search.with_alpha(1.5); }), "alpha 1.500000: is not a share; accepted: 0 to 1");
  EXPECT_EQ(sentence_of([] { SmoothSearch({1}, {}); }), "a layer's activations: have no tokens; record at least one");
  EXPECT_EQ(sentence_of([] { SmoothSearch({1}, {NAN}); }),
            "a layer's activations: are not all finite; record activations again without NaNs and infinities");
  std::uint16_t half = 0x7bff;
  const float factor = 2;
  EXPECT_EQ(sentence_of([&] {
              fold_weight({"F16", std::as_writable_bytes(std::span(&half, 1))}, 0, 1, false, {&factor, 1});
            }),
            "a weight of input channel 0: is too large for F16 afterwards; give a checkpoint in BF16 or F32");
  std::uint8_t code = 1;
  EXPECT_EQ(sentence_of([&] {
              fold_weight({"F8_E4M3", std::as_writable_bytes(std::span(&code, 1))}, 0, 1, false, {&factor, 1});
            }),
            "type F8_E4M3: is that of quantised weights; accepted: F64, F32, F16, BF16");
}

TEST(Smoothing, SamplesTokensOfAllFiles) {
  const std::string folder = testing::TempDir() + "sampled/";
  std::filesystem::create_directories(folder);
  std::vector<std::string> files;
  for (int file = 0; file < 3; ++file) {
    std::vector<float> values;
    for (int token = 0; token < 10; ++token) values.insert(values.end(), 2, static_cast<float>(100 * file + token));
    files.push_back(folder + std::to_string(file) + ".safetensors");
    tools::OutputFile(files.back())
        .commit(std::vector<tools::TensorView>{
            {file == 1 ? "other" : "layer", "F32", {10, 2}, std::as_bytes(std::span(values))}});
  }
  EXPECT_EQ(sample_tokens(files, "layer", 6), (std::vector<float>{0, 0, 5, 5, 200, 200, 202, 202, 205, 205, 207, 207}));
  EXPECT_TRUE(sample_tokens(files, "absent").empty());
}

}  // namespace
}  // namespace cubit::calibrate
