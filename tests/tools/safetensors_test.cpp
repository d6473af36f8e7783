// Proves that the safetensors reader returns accepted files exactly, and that every rule a hostile file can break is a
// BadInput whose sentence names the rule. Proves also that the reader accepts the writer's files.
#include "files/safetensors/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cubit/check.hpp>
#include <filesystem>
#include <random>

#include "files/output_file.hpp"
#include "files/safetensors/reader.hpp"
#include "files/text/error.hpp"
#include "tests/tools/safetensors_views.hpp"
#include "tests/tools/support.hpp"

namespace cubit::tools {
namespace {

using test::as_bytes;
using test::parse_safetensors;
using test::safetensors_bytes;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

std::string message_of(const std::string& file) {
  try {
    parse_safetensors(as_bytes(file), "case.safetensors");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "accepted";
}

std::string one_tensor(const std::string& fields, std::string_view data = "") {
  return safetensors_bytes("{\"a\":{" + fields + "}}", data);
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string file =
      safetensors_bytes(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                        R"("a":{"data_offsets":[0,4],"shape":[1,2],"dtype":"BF16"}}   )",
                        "abcdef");
  const auto tensors = parse_safetensors(as_bytes(file), "f");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].type, "BF16");
  EXPECT_THAT(tensors[0].shape, ElementsAre(1, 2));
  EXPECT_EQ(std::to_integer<char>(tensors[0].data[0]), 'a');
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].data.size(), 2u);
  EXPECT_EQ(std::to_integer<char>(tensors[1].data[1]), 'f');
}

TEST(Safetensors, ReadsScalarsEmptyTensorsAndAnEmptyFile) {
  EXPECT_TRUE(parse_safetensors(as_bytes(safetensors_bytes("{}", "")), "f").empty());
  const auto scalar = one_tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,4])", "abcd");
  EXPECT_TRUE(parse_safetensors(as_bytes(scalar), "f").at(0).shape.empty());
  const auto empty = one_tensor(R"("dtype":"F32","shape":[3,0],"data_offsets":[0,0])");
  EXPECT_THAT(parse_safetensors(as_bytes(empty), "f").at(0).shape, ElementsAre(3, 0));
}

TEST(Safetensors, ReadsEveryTypeThatTheLibraryKnows) {
  for (const char* type : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F16", "BF16", "I16", "U16", "F32", "I32", "U32",
                           "F64", "I64", "U64"}) {
    const std::size_t bytes = type_bytes(type);
    const std::string fields =
        std::string("\"dtype\":\"") + type + "\",\"shape\":[1],\"data_offsets\":[0," + std::to_string(bytes) + "]";
    EXPECT_EQ(message_of(one_tensor(fields, std::string(bytes, 'x'))), "accepted") << type;
  }
}

constexpr const char* kKnownTypes =
    "; accepted: BOOL, U8, I8, F8_E4M3, F8_E5M2, F16, BF16, I16, U16, F32, I32, U32, F64, I64, U64";

struct Hostile {
  const char* name;
  std::string file;
  const char* rule;
};

void PrintTo(const Hostile& hostile, std::ostream* stream) { *stream << hostile.name; }

class HostileFile : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileFile, IsRefusedWithASentenceThatNamesTheRule) {
  const std::string message = message_of(GetParam().file);
  EXPECT_THAT(message, AllOf(StartsWith("case.safetensors: "), HasSubstr(GetParam().rule)));
  EXPECT_THAT(message, AnyOf(EndsWith(kWholeWanted), EndsWith(kKnownTypes), EndsWith("; accepted: up to 8 dimensions"),
                             EndsWith("; is this a safetensors file?"),
                             EndsWith("; a safetensors file starts with the 8-byte length of its header")));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

std::string length_only(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

std::string many_ones(int count) {
  std::string ones = "1";
  for (int i = 1; i < count; ++i) ones += ",1";
  return ones;
}

std::vector<Hostile> hostile_headers() {
  return {
      {"Empty", "", "0 bytes are too few"},
      {"SevenBytes", "1234567", "7 bytes are too few"},
      {"HeaderOverTheLimit", length_only(100'000'001), "over the limit of 100000000"},
      {"HeaderOfAllOnes", length_only(~0ull), "over the limit"},
      {"HeaderPastTheEnd", length_only(3) + "{}",
       "the header claims 3 bytes, but only 2 follow; the file is truncated"},
      {"NoHeader", length_only(0), "the header must be a JSON object"},
      {"NotAnObject", safetensors_bytes("[]", ""), "the header must be a JSON object"},
      {"LeadingBlank", safetensors_bytes(" {}", ""), "the header must be a JSON object"},
      {"CutJson", safetensors_bytes("{\"a\":", ""), "not valid JSON at its byte"},
      {"TrailingText", safetensors_bytes("{}x", ""), "not valid JSON"},
      {"ZeroByteAfterTheObject", safetensors_bytes(std::string("{}\0x", 4), ""), "not valid JSON at its byte 3"},
      {"ZeroBytesAsPadding", safetensors_bytes(std::string("{}\0\0", 4), ""), "not valid JSON at its byte 3"},
      {"ZeroByteInside", safetensors_bytes(std::string("{\0}", 3), ""), "not valid JSON at its byte 2"},
      {"TwoObjects", safetensors_bytes("{}{}", ""), "not valid JSON"},
      {"InvalidUtf8", safetensors_bytes("{\"\xff\":{}}", ""), "not valid JSON"},
      {"HugeExponent", one_tensor("\"dtype\":\"U8\",\"shape\":[1e999],\"data_offsets\":[0,2]", "ab"), "not valid JSON"},
      {"DeepNesting", safetensors_bytes("{\"a\":" + std::string(100'000, '['), ""),
       "\"a\" must be an object, not an array"},
      {"DeepObjects", one_tensor("\"dtype\":{"), "dtype cannot be an object"},
      {"DeepShape", one_tensor("\"shape\":[["), "shape cannot be an array"},
      {"TensorIsANumber", safetensors_bytes("{\"a\":1}", ""), "\"a\" must be an object, not a number"},
      {"TensorIsNull", safetensors_bytes("{\"a\":null}", ""), "\"a\" must be an object, not null"},
      {"MetadataIsAString", safetensors_bytes(R"({"__metadata__":"x"})", ""), "must be an object"},
      {"MetadataHoldsANumber", safetensors_bytes(R"({"__metadata__":{"x":1}})", ""),
       "__metadata__ maps names to strings"},
      {"MetadataTwice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", ""), "appears twice"},
      {"MetadataKeyTwice", safetensors_bytes(R"({"__metadata__":{"x":"","x":""}})", ""),
       "__metadata__ has \"x\" twice"},
  };
}

std::vector<Hostile> hostile_tensors() {
  const std::string good = R"("dtype":"U8","shape":[2],"data_offsets":[0,2])";  // fields for two bytes of data
  return {
      {"NameTwice", safetensors_bytes("{\"a\":{" + good + "},\"a\":{" + good + "}}", "ab"), "\"a\" appears twice"},
      {"NameWithZeroByte", safetensors_bytes("{\"a\\u0000b\":{" + good + "}}", "ab"), "holds a zero byte"},
      {"FieldTwice", one_tensor(good + R"(,"dtype":"I8")", "ab"), "dtype appears twice"},
      {"UnknownField", one_tensor(good + R"(,"color":"red")", "ab"), "\"color\" is not a field of a tensor"},
      {"NoType", one_tensor(R"("shape":[2],"data_offsets":[0,2])", "ab"), "needs dtype, shape and data_offsets"},
      {"NoShape", one_tensor(R"("dtype":"U8","data_offsets":[0,2])", "ab"), "needs dtype, shape and data_offsets"},
      {"NoOffsets", one_tensor(R"("dtype":"U8","shape":[2])", "ab"), "needs dtype, shape and data_offsets"},
      {"UnknownType", one_tensor(R"("dtype":"F4","shape":[2],"data_offsets":[0,2])", "ab"),
       "dtype \"F4\" is not known; accepted: BOOL, U8"},
      {"TypeIsANumber", one_tensor(R"("dtype":8)"), "dtype cannot be a number"},
      {"NegativeExtent", one_tensor(R"("dtype":"U8","shape":[-2],"data_offsets":[0,2])", "ab"),
       "\"-2\" is not a 64-bit non-negative integer"},
      {"FractionalExtent", one_tensor(R"("dtype":"U8","shape":[2.0],"data_offsets":[0,2])", "ab"),
       "\"2.0\" is not a 64-bit"},
      {"ExtentOverflow", one_tensor(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,2])", "ab"),
       "is not a 64-bit"},
      {"ExtentOverSigned", one_tensor(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,2])", "ab"),
       "overflows"},
      {"ProductOverflow", one_tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
       "overflows"},
      {"BytesOverflow", one_tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), "overflows"},
      {"RankNine", one_tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])", "a"),
       "rank is over 8"},
      {"RankOf65", one_tensor(R"("dtype":"F4","data_offsets":[0,1],"shape":[)" + many_ones(65) + "]", "a"),
       "rank is over 64"},
      {"OneOffset", one_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[0])", "ab"),
       "data_offsets must be two numbers"},
      {"ThreeOffsets", one_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[0,2,2])", "ab"),
       "data_offsets must be two numbers"},
      {"NegativeOffset", one_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[-1,1])", "ab"), "is not a 64-bit"},
      {"OffsetsBackwards", one_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[2,0])", "ab"), "run backwards"},
      {"SizeMismatch", one_tensor(R"("dtype":"BF16","shape":[2],"data_offsets":[0,2])", "ab"),
       "span 2 bytes, but its dtype and shape need 4"},
      {"PastTheEnd", one_tensor(good, "a"),
       "tensor \"a\" ends at byte 2 of the data, which has only 1; the file is truncated"},
      {"OffsetsOfAllOnes",
       one_tensor(R"("dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615])"),
       "ends at byte"},
      {"TrailingData", one_tensor(good, "abc"), "1 bytes follow the last tensor"},
      {"HoleAtTheStart", one_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[1,3])", "abc"),
       "begins at byte 1 instead of 0"},
      {"Overlap",
       safetensors_bytes("{\"a\":{" + good + R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "abc"),
       "begins at byte 1 instead of 2"},
      {"SameBytesTwice", safetensors_bytes("{\"a\":{" + good + "},\"b\":{" + good + "}}", "ab"),
       "begins at byte 0 instead of 2"},
      {"TerminalEscapes", safetensors_bytes("{\"\\u001b[2J\":1}", ""), "\"\\u001b[2J\" must be an object"},
  };
}

INSTANTIATE_TEST_SUITE_P(Headers, HostileFile, ::testing::ValuesIn(hostile_headers()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Tensors, HostileFile, ::testing::ValuesIn(hostile_tensors()),
                         [](const auto& test) { return test.param.name; });

TEST(Safetensors, EveryTruncationOfAGoodFileIsRefused) {
  const std::string file = safetensors_bytes(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc");
  ASSERT_EQ(message_of(file), "accepted");
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(message_of(file.substr(0, length)), "accepted") << length;
  }
}

/// Random tensors whose names hold any one-byte UTF-8 character except zero.
struct Dump {
  std::vector<std::vector<std::byte>> data;
  std::vector<TensorView> tensors;
};

Dump random_dump(std::mt19937& random) {
  constexpr const char* kTypes[] = {"U8", "BF16", "F32", "I64"};
  Dump dump;
  const std::size_t count = random() % 6;
  for (std::size_t i = 0; i < count; ++i) {
    TensorView view;
    view.name = std::to_string(i);
    for (std::size_t length = random() % 9; length > 0; --length) view.name += static_cast<char>(1 + random() % 127);
    view.type = kTypes[random() % 4];
    std::size_t bytes = type_bytes(view.type);
    for (std::size_t rank = random() % 5; rank > 0; --rank) {
      view.shape.push_back(random() % 4);
      bytes *= static_cast<std::size_t>(view.shape.back());
    }
    dump.data.emplace_back(bytes);
    for (std::byte& byte : dump.data.back()) byte = static_cast<std::byte>(random());
    dump.tensors.push_back(std::move(view));
  }
  for (std::size_t i = 0; i < count; ++i) dump.tensors[i].data = dump.data[i];
  return dump;
}

void expect_same(std::span<const TensorView> got, std::span<const TensorView> expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const TensorView& tensor : expected) {
    const auto found = std::find_if(got.begin(), got.end(), [&](const TensorView& t) { return t.name == tensor.name; });
    ASSERT_NE(found, got.end()) << tensor.name;
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::equal(found->data.begin(), found->data.end(), tensor.data.begin(), tensor.data.end()));
  }
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  std::mt19937 random(7);
  const TemporaryFolder folder;
  for (int round = 0; round < 300; ++round) {
    const Dump dump = random_dump(random);
    OutputFile file(folder.path("dump.safetensors"));
    file.commit(dump.tensors);
    const SafetensorsFile read(folder.path("dump.safetensors"));
    expect_same(read.tensors(), dump.tensors);
  }
  EXPECT_THAT(folder.names(), ElementsAre("dump.safetensors"));
}

TEST(Safetensors, DataStartsAtAMultipleOfEight) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) EXPECT_EQ(safetensors_header(random_dump(random).tensors).size() % 8, 0u);
}

TEST(Safetensors, AFlippedBitIsRefusedOrLeavesAConsistentFile) {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    const Dump dump = random_dump(random);
    std::string file = safetensors_header(dump.tensors);
    const std::size_t header = file.size();
    for (const auto& data : dump.data) file.append(reinterpret_cast<const char*>(data.data()), data.size());
    file[random() % header] ^= static_cast<char>(1u << random() % 8);
    try {
      std::size_t bytes = 0;
      for (const TensorView& tensor : parse_safetensors(as_bytes(file), "f")) bytes += tensor.data.size();
      EXPECT_LE(bytes + 8, file.size());
    } catch (const BadInput&) {
    }
  }
}

/// Tensors: bytes: 0 to 5; query: eight times 1.0; lengths: 3. The Python package wrote the file, with metadata.
TEST(Safetensors, AFileOfThePythonPackageIsRead) {
  const SafetensorsFile file(CUBIT_TEST_DATA "/python.safetensors");
  std::map<std::string, std::string> read;
  for (const TensorView& tensor : file.tensors()) {
    std::string& text = read[tensor.name] = tensor.type;
    for (const std::int64_t extent : tensor.shape) text += " " + std::to_string(extent);
    for (const std::byte& byte : tensor.data)
      text += (&byte == tensor.data.data() ? ":" : ",") + std::to_string(std::to_integer<int>(byte));
  }
  EXPECT_THAT(read, ElementsAre(Pair("bytes", "U8 2 3:0,1,2,3,4,5"), Pair("lengths", "I32 1:3,0,0,0"),
                                Pair("query", "F16 1 2 4:0,60,0,60,0,60,0,60,0,60,0,60,0,60,0,60")));
}

std::string open_error(const std::string& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "opened";
}

TEST(SafetensorsFile, WhatIsNotAFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(open_error(folder.path("missing")), HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(open_error(folder.path(".")), HasSubstr("is not a regular file"));
  EXPECT_THAT(open_error(folder.write("empty", "")), HasSubstr("is empty"));
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(open_error(folder.path("pipe")), HasSubstr("is not a regular file"));
}

TEST(SafetensorsFile, AFileThatIsCutLaterKeepsItsTensors) {
  const TemporaryFolder folder;
  const std::string data(100'000, 'x');
  const std::string path =
      folder.write("f", safetensors_bytes(R"({"a":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}})", data));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 0);
  EXPECT_TRUE(std::ranges::equal(file.tensors().at(0).data, as_bytes(data)));
}

std::string open_error(const std::string& path, const std::string& wanted) {
  try {
    const SafetensorsFile file(SafetensorsReader(path), [&](const std::string& name) { return name == wanted; });
    EXPECT_EQ(file.tensors().size(), 1u);
    EXPECT_EQ(file.tensors().at(0).name, wanted);
    EXPECT_EQ(std::to_integer<char>(file.tensors().at(0).data[0]), wanted.front());
  } catch (const BadInput& error) {
    return error.what();
  }
  return "opened";
}

/// Files longer than any memory that consist of holes: the header or the wanted tensors are refused before the data is
/// read.
TEST(SafetensorsFile, OfAnEndlessFileWhatFitsIsRead) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("empty", "");
  std::filesystem::resize_file(empty, std::uintmax_t{1} << 30);
  EXPECT_THAT(open_error(empty), HasSubstr("the header must be a JSON object"));
  const std::string header = R"({"s":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                             R"("l":{"dtype":"U8","shape":[8796093022208],"data_offsets":[2,8796093022210]}})";
  const std::string path = folder.write("f", safetensors_bytes(header, "sx"));
  std::error_code refused;
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 43) + 10 + header.size(), refused);
  if (refused) GTEST_SKIP() << "no file is so long here: " << refused.message();
  EXPECT_EQ(open_error(path, "s"), "opened");
  EXPECT_THAT(open_error(path, "l"),
              HasSubstr("has tensors that take 8796093022208 bytes, which is more than this machine's"));
  EXPECT_THAT(open_error(path),
              HasSubstr("has tensors that take 8796093022210 bytes, which is more than this machine's"));
}

TEST(SafetensorsFile, WhatIsNotWantedMayBeOfAnyTypeAndRank) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("f", safetensors_bytes(R"({"x":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[0,3]},)"
                                          R"("y":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[3,4]},)"
                                          R"("z":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                                          "x..yz"));
  EXPECT_EQ(open_error(path, "z"), "opened");
  EXPECT_THAT(open_error(path, "x"), HasSubstr("tensor \"x\": dtype \"F8_E8M0\" is not known; accepted: BOOL, U8"));
  EXPECT_THAT(open_error(path, "y"), HasSubstr("tensor \"y\": its rank is over 8; accepted: up to 8 dimensions"));
  EXPECT_THAT(open_error(path), HasSubstr("dtype \"F8_E8M0\" is not known"));
}

}  // namespace
}  // namespace cubit::tools
