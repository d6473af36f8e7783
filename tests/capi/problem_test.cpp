// Tests of problems through the C interface: tensors come back as they were given, and impossible tensors are refused.
#include <cubit/stream_read.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cubit/check.hpp>

#include <cstring>

namespace {

using ::testing::HasSubstr;

cubit_tensor source_tensor(std::vector<std::uint8_t>& data) {
  cubit_tensor tensor{};
  tensor.name = "source";
  tensor.type = "U8";
  tensor.rank = 1;
  tensor.shape[0] = static_cast<std::int64_t>(data.size());
  tensor.data = data.data();
  return tensor;
}

TEST(Problem, GivesBackWhatItWasGivenFromItsOwnCopy) {
  std::vector<std::uint8_t> data(64, 7);
  const cubit_tensor given = source_tensor(data);
  const cubit::Problem problem("stream_read", {&given, 1});
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  const auto inputs = problem.inputs();
  ASSERT_EQ(inputs.size(), 1U);
  EXPECT_STREQ(inputs[0].name, "source");
  EXPECT_STREQ(inputs[0].type, "U8");
  EXPECT_EQ(inputs[0].shape[0], 64);
  EXPECT_EQ(static_cast<const std::uint8_t*>(inputs[0].data)[63], 7);
  const auto outputs = problem.outputs();
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].data, nullptr);
  EXPECT_EQ(problem.bytes_read(), 64U);
}

TEST(Problem, ArgumentsAreTheOperatorsStruct) {
  const auto problem = cubit::Problem::random("stream_read", {{"bytes", 4096}}, 1);
  char memory[2];
  void* const addresses[] = {&memory[0], &memory[1]};
  cubit_stream_read_arguments arguments;
  std::memcpy(&arguments, problem.arguments(addresses), sizeof arguments);
  EXPECT_EQ(arguments.size, sizeof arguments);
  EXPECT_EQ(arguments.source, &memory[0]);
  EXPECT_EQ(arguments.bytes, 4096);
  EXPECT_THROW(problem.arguments({addresses, 1}), cubit::Error);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("give 2"));
}

TEST(Problem, CompareTellsRightFromWrong) {
  const auto problem = cubit::Problem::random("stream_read", {{"bytes", 4096}}, 1);
  std::vector<std::uint32_t> sums(CUBIT_STREAM_READ_SLOTS, 0);
  const auto* words = static_cast<const std::uint32_t*>(problem.inputs()[0].data);
  for (int i = 0; i < 1024; ++i) sums[0] ^= words[i];
  const void* const outputs[] = {sums.data()};
  EXPECT_TRUE(problem.compare(outputs).good());
  sums[17] = 1;
  EXPECT_FALSE(problem.compare(outputs).good());
}

TEST(Problem, SameSeedSameBytes) {
  const auto first = cubit::Problem::random("stream_read", {{"bytes", 4096}}, 5);
  const auto second = cubit::Problem::random("stream_read", {{"bytes", 4096}}, 5);
  const auto other = cubit::Problem::random("stream_read", {{"bytes", 4096}}, 6);
  EXPECT_EQ(std::memcmp(first.inputs()[0].data, second.inputs()[0].data, 4096), 0);
  EXPECT_NE(std::memcmp(first.inputs()[0].data, other.inputs()[0].data, 4096), 0);
}

TEST(Problem, TensorsThatCannotBeAreRefused) {
  std::vector<std::uint8_t> data(64);
  const auto refused = [&](auto change) {
    cubit_tensor tensor = source_tensor(data);
    change(tensor);
    cubit_problem* problem = nullptr;
    EXPECT_EQ(cubit_problem_create("stream_read", &tensor, 1, nullptr, 0, &problem), CUBIT_INVALID_ARGUMENT);
    EXPECT_EQ(problem, nullptr);
    return std::string(cubit_last_error()->message);
  };
  EXPECT_THAT(refused([](cubit_tensor& t) { t.rank = 9; }), HasSubstr("rank 9 is out of range"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.rank = -1; }), HasSubstr("rank -1 is out of range"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.shape[0] = -5; }), HasSubstr("size -5 is negative"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.rank = 2, t.shape[0] = t.shape[1] = INT64_C(1) << 40; }),
              HasSubstr("the tensor's size overflows"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.data = nullptr; }), HasSubstr("data of an input"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.name = nullptr; }), HasSubstr("cubit_tensor: name"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.type = nullptr; }), HasSubstr("cubit_tensor: type"));
  EXPECT_THAT(refused([](cubit_tensor& t) { t.type = "Q3"; }), HasSubstr("Q3"));
}

TEST(Problem, NumberGivenTwiceIsRefused) {
  EXPECT_THROW(cubit::Problem::random("stream_read", {{"bytes", 64}, {"bytes", 128}}, 1), cubit::Error);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("this name is given twice"));
}

TEST(Problem, TensorGivenTwiceIsRefused) {
  std::vector<std::uint8_t> data(64);
  const cubit_tensor given[] = {source_tensor(data), source_tensor(data)};
  EXPECT_THROW(cubit::Problem("stream_read", given), cubit::Error);
  EXPECT_EQ(cubit_last_error()->status, CUBIT_INVALID_ARGUMENT);
  EXPECT_STREQ(cubit_last_error()->message, "tensor \"source\": this name is given twice; give each name once");
}

TEST(Problem, IndexBeyondTheTensorsIsRefused) {
  std::vector<std::uint8_t> data(64);
  const cubit_tensor given = source_tensor(data);
  cubit_problem* problem = nullptr;
  ASSERT_EQ(cubit_problem_create("stream_read", &given, 1, nullptr, 0, &problem), CUBIT_OK);
  cubit_tensor tensor{};
  EXPECT_EQ(cubit_problem_input(problem, 1, &tensor), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("there are 1"));
  EXPECT_EQ(cubit_problem_output(problem, 1, &tensor), CUBIT_INVALID_ARGUMENT);
  cubit_problem_release(problem);
}

}  // namespace
