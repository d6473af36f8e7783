// Proves that a layer's tensors are found in a file, in the shards that an index names, and in a folder. Nothing else
// is read. Every rule that a hostile index can break is a BadInput whose sentence names the rule.
#include "tools/checkpoint/layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/text/error.hpp"
#include "tests/tools/support.hpp"
#include "tools/checkpoint/index.hpp"

namespace cubit::tools {
namespace {

using test::safetensors_bytes;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

/// Writes a file with one tensor of one byte for each name; the byte is the last character of the name.
std::string file_of(const std::vector<std::string>& names) {
  std::string header = "{";
  std::string data;
  for (const std::string& name : names) {
    header += (data.empty() ? "" : ",") + ("\"" + name) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + 1) + "]}";
    data += name.back();
  }
  return safetensors_bytes(header + "}", data);
}

std::string index_of(const std::string& map) { return R"({"metadata":{"total_size":3},"weight_map":{)" + map + "}}"; }

std::vector<std::string> names_of(const CheckpointLayer& layer) {
  std::vector<std::string> names;
  for (const TensorView& tensor : layer.tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(std::to_integer<char>(tensor.data[0]), tensor.name.back()) << "another tensor's bytes";
  }
  return names;
}

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "accepted";
}
std::string message_of_index(const std::string& text) {
  return message_of([&] { parse_checkpoint_index(text, "index.json"); });
}
std::string message_of_layer(const std::string& path, const std::string& layer) {
  return message_of([&] { CheckpointLayer(path, layer); });
}

TEST(CheckpointIndex, MapsTensorsToFiles) {
  const auto files = parse_checkpoint_index(
      R"( {"format":[1,{"weight_map":{"x":"y"}}],"weight_map":{"a.b":"1.safetensors","c":"2.safetensors"},"metadata":null})",
      "i");
  EXPECT_THAT(files, ElementsAre(Pair("a.b", "1.safetensors"), Pair("c", "2.safetensors")));
  EXPECT_TRUE(parse_checkpoint_index(R"({"weight_map":{}})", "i").empty());
}

struct Hostile {
  std::string text;
  std::string rule;
};

TEST(CheckpointIndex, BrokenRulesAreNamed) {
  const Hostile cases[] = {
      {"", "the index must be a JSON object"},
      {"[]", "the index must be a JSON object"},
      {"{", "the index is not valid JSON at its byte"},
      {R"({"weight_map":{"a":"1.safetensors"}} x)", "the index is not valid JSON at its byte"},
      {std::string("{\0}", 3), "the index is not valid JSON at its byte 2, which is zero"},
      {"{}", "the index has no weight_map"},
      {R"({"metadata":{"weight_map":{"a":"1.safetensors"}}})", "the index has no weight_map"},
      {R"({"weight_map":"a"})", "weight_map must be an object, not a string"},
      {R"({"weight_map":["a"]})", "weight_map must be an object, not an array"},
      {R"({"weight_map":null})", "weight_map must be an object, not null"},
      {R"({"weight_map":{},"weight_map":{}})", "weight_map appears twice"},
      {index_of(R"("a":"1.safetensors","a":"2.safetensors")"), "tensor \"a\" appears twice"},
      {index_of(R"("a":1)"), "tensor \"a\": its file must be a string, not a number"},
      {index_of(R"("a":{"b":"1.safetensors"})"), "tensor \"a\": its file must be a string, not an object"},
      {index_of(R"("a":["1.safetensors"])"), "tensor \"a\": its file must be a string, not an array"},
      {index_of(R"("a\u0000b":"1.safetensors")"), "holds a zero byte"},
      {index_of(R"("a":"")"), "\"\" is not the name of a safetensors file beside the index, without a folder"},
      {index_of(R"("a":"../1.safetensors")"), "\"../1.safetensors\" is not the name of a safetensors file beside"},
      {index_of(R"("a":"/etc/1.safetensors")"), "\"/etc/1.safetensors\" is not the name of a"},
      {index_of(R"("a":"..\\1.safetensors")"), "is not the name of a safetensors file beside the index"},
      {index_of(R"("a":"1.safetensors\u0000.safetensors")"), "is not the name of a safetensors file beside the index"},
      {index_of(R"("a":"/dev/stdin")"), "is not the name of a safetensors file"},
      {index_of(R"("a":"1.bin")"), "\"1.bin\" is not the name of a safetensors file"},
  };
  for (const Hostile& one : cases) EXPECT_THAT(message_of_index(one.text), HasSubstr("index.json: ")) << one.text;
  for (const Hostile& one : cases) EXPECT_THAT(message_of_index(one.text), HasSubstr(one.rule)) << one.text;
  for (const Hostile& one : cases) EXPECT_THAT(message_of_index(one.text), HasSubstr("; ")) << one.text;
}

// After any change of one byte, an accepted index names only files of its own folder.
TEST(CheckpointIndex, EveryOneByteChangeIsReadOrRefused) {
  const std::string good = index_of(R"("a.b":"1.safetensors","c":"x2.safetensors")");
  int accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = good;
      text[at] = static_cast<char>(byte);
      try {
        for (const auto& [tensor, file] : parse_checkpoint_index(text, "i")) {
          EXPECT_EQ(file.find_first_of("/\\"), std::string::npos) << text;
          EXPECT_TRUE(file.ends_with(".safetensors")) << text;
        }
        ++accepted;
      } catch (const BadInput&) {
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

/// cubit convert writes the index again from a tree, which needs a stack level for each level of the tree.
TEST(CheckpointIndex, ADeepTreeIsRefused) {
  for (const int depth : {98, 99, 100, 100'000}) {
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    const std::string message = message_of_index("{\"x\":" + deep + ",\"weight_map\":{}}");
    if (depth < 100)
      EXPECT_EQ(message, "accepted") << depth;
    else
      EXPECT_THAT(message, HasSubstr("index.json: the index nests deeper than 100 levels; give the index")) << depth;
  }
}

TEST(CheckpointLayer, TakesItsTensorsFromOneFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "m.safetensors", file_of({"x.1.qweight", "x.10.qweight", "x.1.scales", "x.1.deeper.qweight", "y.1.g_idx", "x.1",
                                "x.1.bias", "x.1.weight", "x.1.output_scale", "x.1.qweights"}));
  EXPECT_THAT(names_of(CheckpointLayer(path, "x.1")), ElementsAre("qweight", "scales", "bias"));
  EXPECT_THAT(message_of_layer(path, "x"), HasSubstr("has no tensors of this layer"));
}

TEST(CheckpointLayer, OfNoNameTakesTensorsThatAreNamedSo) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("m.safetensors", file_of({"qweight", "x.qweight", "scales", "max_error", "qzeros"}));
  EXPECT_THAT(names_of(CheckpointLayer(path, "")), ElementsAre("qweight", "scales", "qzeros"));
}

TEST(CheckpointLayer, TakesItsTensorsFromShards) {
  const TemporaryFolder folder;
  folder.write("1.safetensors", file_of({"x.1.qweight", "x.2.qweight"}));
  folder.write("2.safetensors", file_of({"x.2.scales", "x.1.scales", "x.1.g_idx"}));
  const std::string index = folder.write(
      "model.safetensors.index.json",
      index_of(
          R"("x.1.qweight":"1.safetensors","x.2.qweight":"1.safetensors","x.1.scales":"2.safetensors","x.1.g_idx":"2.safetensors",)"
          R"("x.3.qweight":"3.safetensors")"));
  EXPECT_THAT(names_of(CheckpointLayer(index, "x.1")), ElementsAre("qweight", "scales", "g_idx"));
  EXPECT_THAT(names_of(CheckpointLayer(folder.path(""), "x.1")), ElementsAre("qweight", "scales", "g_idx"));
  EXPECT_THAT(names_of(CheckpointLayer(index, "x.2")), ElementsAre("qweight"))
      << "the index decides, not what a shard has";
  EXPECT_THAT(message_of_layer(index, "x.3"),
              HasSubstr("/3.safetensors: does not exist, although the index model.safetensors.index.json names it"));
}

TEST(CheckpointLayer, OfALayerThatIsNotQuantisedTakesTheWeightAndTheBias) {
  const TemporaryFolder folder;
  folder.write("1.safetensors", file_of({"x.bias", "x.weight", "x.other_scale"}));
  const std::string index =
      folder.write("model.safetensors.index.json", index_of(R"("x.bias":"1.safetensors","x.weight":"1.safetensors")"));
  for (const std::string& path : {folder.path("1.safetensors"), index}) {
    const CheckpointLayer layer(path, "x");
    EXPECT_FALSE(layer.is_quantised());
    std::vector<std::pair<std::string, char>> first_bytes;
    for (const TensorView& tensor : layer.tensors())
      first_bytes.emplace_back(tensor.name, std::to_integer<char>(tensor.data[0]));
    EXPECT_THAT(first_bytes, UnorderedElementsAre(Pair("bias", 's'), Pair("weights", 't')));
  }
}

TEST(CheckpointLayer, OfEightBitsTakesTheScales) {
  const TemporaryFolder folder;
  folder.write("1.safetensors", file_of({"x.weight", "x.weight_scale", "x.input_scale", "x.qzeros"}));
  const CheckpointLayer layer(folder.path("1.safetensors"), "x");
  EXPECT_TRUE(layer.is_quantised());
  std::vector<std::string> names;
  for (const TensorView& tensor : layer.tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, UnorderedElementsAre("weights", "weight_scale", "input_scale"));
}

TEST(CheckpointLayer, AFolderHasOneCheckpoint) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of_layer(folder.path(""), "x"),
              HasSubstr("the folder holds neither *.safetensors.index.json nor *.safetensors"));
  folder.write("a.safetensors", file_of({"x.qweight"}));
  EXPECT_THAT(names_of(CheckpointLayer(folder.path(""), "x")), ElementsAre("qweight"));
  folder.write("b.safetensors", file_of({"x.qweight"}));
  EXPECT_THAT(
      message_of_layer(folder.path(""), "x"),
      HasSubstr("the folder holds 2 files *.safetensors, for example a.safetensors; give the path of one file"));
}

/// Left-over files of a conversion that did not finish.
TEST(CheckpointLayer, AFolderOfAFileOfSeveralWithoutTheirIndexIsNone) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00002.safetensors", file_of({"x.qweight"}));
  EXPECT_THAT(message_of_layer(folder.path(""), "x"),
              HasSubstr("the folder holds model-00001-of-00002.safetensors, a part of a checkpoint, but no index; "
                        "give the folder of a complete checkpoint, or the path of this file"));
  EXPECT_THAT(names_of(CheckpointLayer(folder.path("model-00001-of-00002.safetensors"), "x")), ElementsAre("qweight"));
  const TemporaryFolder whole;
  whole.write("model-00001-of-00001.safetensors", file_of({"x.qweight"}));
  EXPECT_THAT(names_of(CheckpointLayer(whole.path(""), "x")), ElementsAre("qweight"));
  const TemporaryFolder other;
  other.write("best-of-5.safetensors", file_of({"x.qweight"}));
  EXPECT_THAT(names_of(CheckpointLayer(other.path(""), "x")), ElementsAre("qweight"));
}

TEST(CheckpointLayer, MissingThingsAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of_layer(folder.path("none"), "x"), HasSubstr("cannot be read: No such file"));
  const std::string file =
      folder.write("m.safetensors", file_of({"x.1.qweight", "x.1.scales", "x.2.qweight", "norm.w"}));
  EXPECT_THAT(
      message_of_layer(file, "x.3"),
      ::testing::AllOf(HasSubstr("--layer x.3: "), HasSubstr("has no tensors of this layer; accepted: \"x.1\"")));
  EXPECT_THAT(message_of_layer(file, ""),
              ::testing::AllOf(HasSubstr("no --layer: "), HasSubstr("has no tensors without a layer name; "
                                                                    "accepted: \"x.1\"")));
  const std::string dense = folder.write("d.safetensors", file_of({"x.1.weight", "x.2.weight", "table"}));
  EXPECT_THAT(message_of_layer(dense, "x.3"), HasSubstr("has no tensors of this layer; accepted: \"x.1\", \"x.2\""));
  const std::string norms = folder.write("p.safetensors", file_of({"a.norm.weight", "a.norm.bias", "b.qweight"}));
  EXPECT_THAT(message_of_layer(norms, "x"), HasSubstr("has no tensors of this layer; accepted: \"b\""));
  const std::string nameless = folder.write("q.safetensors", file_of({"qweight", "scales"}));
  EXPECT_THAT(message_of_layer(nameless, "a"), HasSubstr("has no tensors of this layer; leave --layer out"));
  const std::string neither = folder.write("n.safetensors", file_of({"table"}));
  EXPECT_THAT(message_of_layer(neither, "x"),
              HasSubstr("; give a checkpoint with tensors NAME.qweight, NAME.scales and others, or NAME.weight"));
  const std::string index = folder.write(
      "i.json",
      index_of(R"("x.1.qweight":"m.safetensors","x.1.bias":"m.safetensors","y.qweight":"shard.safetensors")"));
  EXPECT_THAT(
      message_of_layer(index, "x.1"),
      HasSubstr(
          "m.safetensors: has no tensor \"x.1.bias\", although the index names it; give files that belong together"));
  folder.write("shard.safetensors", "not a safetensors file at all");
  EXPECT_THAT(message_of_layer(index, "y"), HasSubstr("shard.safetensors: the header claims"));
  EXPECT_THAT(message_of_layer(folder.write("e.json", ""), "y"), HasSubstr("e.json: the index must be a JSON object"));
}

}  // namespace
}  // namespace cubit::tools
