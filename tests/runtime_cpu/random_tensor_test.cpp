// Copies random boxes of random tensors and compares with the model: strides in any order, gaps, zeros outside,
// swizzles.
#include <random>

#include "base/error.hpp"
#include "tests/runtime_cpu/tensor_copy.hpp"

namespace cubit::tests {
namespace {

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  /// All dimensions except the first lie in memory in any order, with gaps. The box is anywhere around the tensor.
  Copy copy(int rank) {
    Copy made;
    made.map.rank = rank;
    choose_rows(made.map);
    std::vector<std::size_t> order;
    for (int i = 1; i < rank; ++i) order.push_back(static_cast<std::size_t>(i));
    std::shuffle(order.begin(), order.end(), random_);
    std::uint64_t extent = made.map.sizes[0] * static_cast<std::uint64_t>(made.map.element_bytes);
    made.bytes = extent;
    for (const std::size_t i : order) {
      made.map.sizes[i] = number(1, 5);
      made.map.box[i] = static_cast<std::uint32_t>(number(1, 4));
      made.map.strides[i - 1] = (extent + 15) / 16 * 16 + 16 * number(0, 2);
      made.bytes += (made.map.sizes[i] - 1) * made.map.strides[i - 1];
      extent = made.map.strides[i - 1] * made.map.sizes[i];
    }
    shrink(made.map);
    place(made);
    return made;
  }

  std::uint64_t number(std::uint64_t first, std::uint64_t last) { return first + random_() % (last - first + 1); }

 private:
  void choose_rows(TensorMap& map) {
    constexpr TensorSwizzle kSwizzles[] = {TensorSwizzle::none, TensorSwizzle::span32, TensorSwizzle::span64,
                                           TensorSwizzle::span128};
    map.element_bytes = 1 << number(0, 3);
    map.swizzle = kSwizzles[number(0, 3)];
    const std::uint64_t bytes =
        map.swizzle == TensorSwizzle::none ? 16 * number(1, 12) : static_cast<std::uint64_t>(map.swizzle);
    map.box[0] = static_cast<std::uint32_t>(bytes / static_cast<std::uint64_t>(map.element_bytes));
    map.sizes[0] = number(1, 2 * map.box[0]);
  }

  /// Shrinks the box until it fits half of the buffer.
  static void shrink(TensorMap& map) {
    for (std::size_t i = 4; i > 0 && map.box_bytes() > kBuffer / 2; --i) {
      if (i < static_cast<std::size_t>(map.rank)) map.box[i] = 1;
    }
  }

  void place(Copy& made) {
    made.allocate();
    for (std::uint64_t i = 0; i < made.bytes; ++i) made.data()[i] = static_cast<std::uint8_t>(random_() | 1);
    made.arguments.offset = static_cast<std::uint32_t>(128 * number(0, 16));
    for (std::size_t i = 0; i < static_cast<std::size_t>(made.map.rank); ++i) {
      const auto span = static_cast<std::int32_t>(made.map.sizes[i] + made.map.box[i]);
      made.arguments.first[i] = static_cast<std::int32_t>(number(0, static_cast<std::uint64_t>(span))) -
                                static_cast<std::int32_t>(made.map.box[i]);
    }
  }

  std::mt19937 random_;
};

/// Returns the result of run_copy. A box completely outside its tensor is an error with the checker, and otherwise
/// follows the model.
Bytes run_anywhere(const runtime::cpu::Program& program, const Copy& copy) {
  const bool beside = is_beside(copy);
  if (beside) {
    EXPECT_THROW(run_copy(program, copy), Failure) << copy.map.text();
  }
  return run_copy(program, copy, 1, !beside);
}

constexpr int kRounds = 200;  // for each number of dimensions

/// The parameter is the number of dimensions.
class RandomTensors : public ::testing::TestWithParam<int> {};

TEST_P(RandomTensors, LoadsWhatTheModelLoads) {
  const Program program = load_copy(kExpect + load_of(GetParam()) + kWait + kDump);
  Generator generator(static_cast<unsigned>(GetParam()));
  for (int round = 0; round < kRounds; ++round) {
    const Copy copy = generator.copy(GetParam());
    ASSERT_EQ(run_anywhere(*program, copy), loaded_buffer(copy)) << copy.map.text() << ", round " << round;
  }
}

TEST_P(RandomTensors, StoresWhatTheModelStores) {
  const Program program =
      load_copy(store_of(GetParam()) + "@%p0 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n");
  Generator generator(100 + static_cast<unsigned>(GetParam()));
  for (int round = 0; round < kRounds; ++round) {
    const Copy copy = generator.copy(GetParam());
    const Bytes expected = stored_tensor(copy);
    run_anywhere(*program, copy);
    ASSERT_EQ(copy.tensor(), expected) << copy.map.text() << ", round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, RandomTensors, ::testing::Range(1, 6));

}  // namespace
}  // namespace cubit::tests
