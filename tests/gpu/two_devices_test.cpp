// Proves on two GPUs of one process: one engine and one handle per kernel serve both, each GPU computes its own
// results, and neither changes what the other holds. With fewer than two GPUs the tests are skipped.
//
// A kernel has code, workspaces and tensor maps per device. A mistake there would launch one GPU's code or encoded
// arguments on the other, so both GPUs get the same kernels, shapes and streams of calls, with different data.
#include <barrier>
#include <memory>
#include <thread>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

struct Size {
  const char* descriptor;
  Problem::Numbers numbers;
};

// Kernels with and without tensor maps, with split launches (which count in the workspace), and sets at sizes that take
// different members.
const std::vector<Size> kSizes = {
    {"gqa_decode:heads_per_kv=8", {{"batch", 3}, {"context", 3000}, {"kv_heads", 2}}},
    {"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4", {{"batch", 2}, {"context", 4000}, {"kv_heads", 2}}},
    {"gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged", {{"batch", 3}, {"context", 1000}, {"kv_heads", 2}}},
    {"w4a16_gemm", {{"m", 1}, {"n", 2048}, {"k", 2048}}},
    {"w4a16_gemm", {{"m", 70}, {"n", 1024}, {"k", 512}}},
    {"w4a16_gemm", {{"m", 500}, {"n", 1024}, {"k", 256}}},
    {"w8a8_gemm", {{"m", 1}, {"n", 2048}, {"k", 2048}}},
    {"w8a8_gemm", {{"m", 300}, {"n", 1024}, {"k", 512}}},
    {"quantize", {{"rows", 64}, {"columns", 1024}}},
};
constexpr int kDevices = 2;
constexpr int kRepeats = 50;

const SuiteKernels kKernels("TwoDevicesGpu", [](const std::string&) {
  std::vector<std::string> texts;
  for (const Size& size : kSizes) texts.emplace_back(size.descriptor);
  return texts;
});

/// One problem on one device, with the tensors, the stream and the workspace of that device.
class Placed {
 public:
  Placed(const Device& device, const Kernel& kernel, const Size& size, std::uint64_t seed)
      : device_(device),
        kernel_(kernel),
        problem_(Problem::random(size.descriptor, size.numbers, seed)),
        tensors_(device, problem_),
        arguments_(copy_of(tensors_.arguments())),
        workspace_(device,
                   std::max<std::size_t>(kernel.workspace(arguments_.data(), &device), CUBIT_WORKSPACE_ZEROED_BYTES),
                   0),
        stream_(device.create_stream()) {}
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() { device_.destroy_stream(stream_); }

  void launch() const {
    kernel_.launch(
        arguments_.data(),
        {.device = &device_, .stream = stream_, .workspace = workspace_.data(), .workspace_bytes = workspace_.bytes()});
  }
  void wait() const { device_.synchronise(stream_); }
  Graph captured() const {
    return device_.capture(stream_, [&] { launch(); });
  }
  void replay(const Graph& graph) const { device_.replay(graph, stream_); }
  void forget() { tensors_.reset_outputs(); }

  std::vector<unsigned char> bits() { return tensors_.output(0).download(); }
  void expect_good(const std::string& what) const {
    const auto result = tensors_.compare(problem_);
    EXPECT_LE(result.error, result.tolerance) << what << ": " << result.worst;
    tensors_.expect_guards_intact();
    EXPECT_TRUE(workspace_.guards_intact()) << what;
    EXPECT_NO_THROW(device_.check_workspace(workspace_.data(), stream_)) << what;
  }

 private:
  /// An argument struct begins with its size. The library's own struct is overwritten by the next one.
  static std::vector<std::byte> copy_of(const void* arguments) {
    const auto* bytes = static_cast<const std::byte*>(arguments);
    return {bytes, bytes + *static_cast<const std::size_t*>(arguments)};
  }

  Device device_;
  Kernel kernel_;
  Problem problem_;
  DeviceCase tensors_;
  std::vector<std::byte> arguments_;
  GuardedBuffer workspace_;
  cubit_stream stream_;
};

class TwoDevicesGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    for (int i = 0; i < kDevices; ++i) {
      try {
        devices_.emplace_back("cuda:" + std::to_string(i));
      } catch (const Error& error) {
        GTEST_SKIP() << "fewer than two GPUs: " << error.what();
      }
    }
    if (architecture_of(devices_[0]) != architecture_of(devices_[1]))
      GTEST_SKIP() << "the first two GPUs have different architectures";
  }

  /// The size on both devices, with different data.
  std::vector<std::unique_ptr<Placed>> placed(const Size& size) const {
    const Kernel both = kernel(size.descriptor);
    std::vector<std::unique_ptr<Placed>> result;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      both.prepare(devices_[i]);
      result.push_back(std::make_unique<Placed>(devices_[i], both, size, 1 + i));
    }
    return result;
  }
  static std::string name_of(const Size& size, std::size_t device) {
    return std::string(size.descriptor) + " on cuda:" + std::to_string(device);
  }

  std::vector<Device> devices_;
};

TEST_F(TwoDevicesGpu, TwoThreadsGetTheirOwnResultsAtTheSameTime) {
  for (const Size& size : kSizes) {
    const auto places = placed(size);
    std::vector<std::vector<unsigned char>> first;
    for (const auto& here : places) {
      here->launch();
      here->wait();
      first.push_back(here->bits());
    }
    std::barrier start(kDevices);
    on_threads(kDevices, [&](std::size_t i) {
      start.arrive_and_wait();
      Placed& here = *places[i];
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        here.forget();
        here.launch();
        here.wait();
        EXPECT_EQ(here.bits(), first[i]) << name_of(size, i) << ", repeat " << repeat;
      }
      here.expect_good(name_of(size, i));
    });
  }
}

// A thread remembers its recent launches and tensor maps.
TEST_F(TwoDevicesGpu, OneThreadAlternatesBetweenThem) {
  for (const Size& size : kSizes) {
    const auto places = placed(size);
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      for (const auto& here : places) here->launch();
    }
    for (const auto& here : places) here->wait();
    for (const auto& here : places) here->forget();
    for (const auto& here : places) here->launch();
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i]->wait();
      places[i]->expect_good(name_of(size, i));
    }
  }
}

TEST_F(TwoDevicesGpu, GraphsOfBothAreReplayedAtTheSameTime) {
  for (const Size& size : kSizes) {
    const auto places = placed(size);
    std::vector<Graph> graphs;
    for (const auto& here : places) graphs.push_back(here->captured());
    for (const auto& here : places) here->forget();
    on_threads(kDevices, [&](std::size_t i) {
      for (int repeat = 0; repeat < kRepeats; ++repeat) places[i]->replay(graphs[i]);
      places[i]->expect_good(name_of(size, i));
    });
  }
}

// The threads begin together, so that both devices miss the code of the same kernels.
TEST_F(TwoDevicesGpu, CodeIsLoadedOnBothAtTheSameTime) {
  const std::string text = "w4a16_gemm";
  kernel(text);  // compiled, and in the disk cache
  for (int round = 0; round < 3; ++round) {
    const Engine engine;
    std::barrier start(kDevices);
    on_threads(kDevices, [&](std::size_t i) {
      start.arrive_and_wait();
      const Size size{"w4a16_gemm", {{"m", 20}, {"n", 512}, {"k", 512}}};
      const Placed here(devices_[i], engine.get(text, architecture()), size, 1 + i);
      here.launch();
      here.wait();
      here.expect_good(name_of(size, i));
    });
  }
}

}  // namespace
}  // namespace cubit::tests
