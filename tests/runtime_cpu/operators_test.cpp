// Runs whole operators on the CPU device through the public interface. The code that NVRTC makes for an architecture
// computes the reference's results and writes nothing outside its outputs. Skipped without NVRTC.
#include <cubit/w4a16_gemm.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

class CpuOperators : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
    device_.watch(CUBIT_WATCH_MEMORY);
  }

  void launch(const Kernel& kernel, const DeviceCase& on_device, cubit_stream stream = nullptr) const {
    const void* arguments = on_device.arguments();
    GuardedBuffer workspace(device_, kernel.workspace(arguments, &device_), 0);
    kernel.launch(arguments, {.device = &device_,
                              .stream = stream,
                              .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                              .workspace_bytes = workspace.bytes()});
    on_device.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
  }

  void expect_good(const std::string& descriptor, const Problem::Numbers& sizes) const {
    SCOPED_TRACE(descriptor);
    const Problem problem = Problem::random(descriptor, sizes, 7);
    const DeviceCase on_device(device_, problem);
    launch(engine().get(descriptor, GetParam()), on_device);
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }

  Device device_{GetParam()};
};

TEST_P(CpuOperators, StreamReadReadsEveryWord) { expect_good("stream_read", {{"bytes", 1 << 18}}); }

TEST_P(CpuOperators, Int4RowsInSeveralSplits) {
  expect_good("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4", {{"batch", 1}, {"context", 1024}, {"kv_heads", 1}});
}

TEST_P(CpuOperators, PagesWithHeadsOutside) {
  for (const double page_size : {7, 16}) {
    const Problem::Numbers sizes = {{"batch", 3},  {"context", 100},         {"kv_heads", 2},
                                    {"ragged", 1}, {"page_size", page_size}, {"hnd", 1}};
    expect_good("gqa_decode:heads_per_kv=4,kv=int8_split,cache=paged", sizes);
  }
}

TEST_P(CpuOperators, TheOtherFormats) {
  for (const char* descriptor :
       {"gqa_decode:heads_per_kv=8", "gqa_decode:heads_per_kv=3,kv=fp16,query=fp16,output=fp16,head_dim=64",
        "gqa_decode:heads_per_kv=16,kv=int4_rows,groups=8",
        "gqa_decode:heads_per_kv=2,kv=int4_rows,head_dim=64,query=fp16"}) {
    expect_good(descriptor, {{"batch", 3}, {"context", 200}, {"kv_heads", 2}});
  }
}

// For fp16 queries. Without centring around the middle of the nibbles, rounding errors of one group would be 1.2e-3
// here.
TEST_P(CpuOperators, Int4RowsRoundBesideTheMiddleOfNibbles) {
  for (const char* descriptor : {"gqa_decode:heads_per_kv=8,kv=int4_rows,query=fp16",
                                 "gqa_decode:heads_per_kv=16,kv=int4_rows,query=fp16,family=sm80"}) {
    const Problem problem = Problem::random(descriptor, {{"batch", 2}, {"context", 50}, {"kv_heads", 2}}, 7);
    const DeviceCase on_device(device_, problem);
    launch(engine().get(descriptor, GetParam()), on_device);
    EXPECT_LT(on_device.compare(problem).error, 6e-4) << descriptor;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CpuOperators, ::testing::Values("cpu:sm_80", "cpu:sm_90a", "cpu:sm_120"),
                         [](const auto& given) { return std::string(given.param + 4); });

/// Rows with gaps that must stay unchanged, and a residual that the output replaces.
TEST(CpuGemm, RowsApartAndAResidualInPlace) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kColumns = 40;
  constexpr std::int64_t kApart = kColumns + 8;
  const Device device("cpu:sm_80");
  device.watch(CUBIT_WATCH_MEMORY);
  const Problem problem =
      Problem::random("w4a16_gemm:tile_m=16,tile_n=256,residual=true", {{"m", kRows}, {"n", kColumns}, {"k", 256}}, 9);
  const auto inputs = problem.inputs();
  DeviceCase on_device(device, problem);
  auto arguments = *static_cast<const cubit_w4a16_gemm_arguments*>(on_device.arguments());
  const auto spread = [&](const cubit_tensor& tensor, std::int64_t columns, std::int64_t apart) {
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(kRows * apart), 0x7fff);  // NaN between rows
    for (std::int64_t row = 0; row < kRows; ++row)
      std::copy_n(static_cast<const std::uint16_t*>(tensor.data) + row * columns, columns, &rows[row * apart]);
    auto buffer = std::make_unique<GuardedBuffer>(device, 2 * rows.size(), 0);
    device.upload(buffer->data(), rows.data(), 2 * rows.size());
    return buffer;
  };
  const auto activations = spread(inputs[0], 256, 256 + 8);
  const auto output = spread(inputs[4], kColumns, kApart);
  arguments.activations = activations->data();
  arguments.activation_stride = 256 + 8;
  arguments.residual = arguments.output = output->data();
  arguments.residual_stride = arguments.output_stride = kApart;
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  engine().get("w4a16_gemm:tile_m=16,tile_n=256,residual=true", "cpu:sm_80").launch(&arguments, {.device = &device});
  EXPECT_TRUE(output->guards_intact());
  const auto bytes = output->download();
  std::vector<std::uint16_t> dense;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto* const first = reinterpret_cast<const std::uint16_t*>(bytes.data()) + row * kApart;
    dense.insert(dense.end(), first, first + kColumns);
    for (std::int64_t i = kColumns; i < kApart; ++i) EXPECT_EQ(first[i], 0x7fff);
  }
  const void* const got = dense.data();
  EXPECT_TRUE(problem.compare(std::vector<const void*>{got}).good());
}

TEST(CpuDevice, DescribesItself) {
  const std::string facts = Device("cpu:sm_90a").describe();
  EXPECT_THAT(facts, HasSubstr("sm_90a"));
  EXPECT_THAT(facts, HasSubstr("\"cpu:sm_90a\""));
}

TEST(CpuDevice, TakesNoUnknownArchitecture) { EXPECT_THROW(Device("cpu:sm_1"), Error); }

TEST(CpuDevice, TakesCodeThatWasMadeForItOnly) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_80");
  try {
    engine().get("stream_read", "sm_80").prepare(device);
    FAIL() << "a cubin was loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a cubin runs on a GPU"));
  }
  EXPECT_THROW(engine().get("stream_read", "cpu:sm_90a").prepare(device), Error);
}

TEST(CpuDevice, AnEntryPointThatASourceDoesNotDefineIsRefused) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  cubit_source source{};
  source.size = sizeof source;
  source.name = "mine:1";
  source.template_name = "mine.cuh";
  source.template_text = "extern \"C\" __global__ void mine() {}\n";
  source.entry_point = "yours";
  source.threads = 32;
  for (const char* const architecture : {"cpu:sm_80", "sm_80"}) {
    try {
      engine().get(source, architecture);
      ADD_FAILURE() << architecture;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_THAT(error.what(), HasSubstr("entry point \"yours\": the source compiles and defines no"));
      EXPECT_THAT(error.what(), HasSubstr("entry points that it does define: mine"));
    }
  }
  source.entry_point = "mine";
  EXPECT_NO_THROW(engine().get(source, "cpu:sm_80"));
}

/// A launch whose blocks share results through a workspace.
struct SharedWork {
  const char* descriptor;
  Problem::Numbers sizes;
};

class CpuWorkspace : public ::testing::TestWithParam<SharedWork> {};

TEST_P(CpuWorkspace, DirtyCountersAreRefusedAndTheOtherBytesMayHoldAnything) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_80");
  const Problem problem = Problem::random(GetParam().descriptor, GetParam().sizes, 7);
  const DeviceCase on_device(device, problem);
  const Kernel kernel = engine().get(GetParam().descriptor, "cpu:sm_80");
  kernel.prepare(device);
  const void* const arguments = on_device.arguments();
  const Buffer workspace(device, kernel.workspace(arguments, &device));
  ASSERT_GT(workspace.bytes(), std::size_t{CUBIT_WORKSPACE_ZEROED_BYTES});
  const auto launch = [&](cubit_stream stream) {
    kernel.launch(
        arguments,
        {.device = &device, .stream = stream, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
  };
  const auto expect_refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "the launch ran";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_THAT(error.what(), HasSubstr("the counters at its start must be zero between launches"));
    }
  };
  const auto write = [&](std::size_t offset, const std::vector<std::uint32_t>& words) {
    void* const at = static_cast<std::byte*>(workspace.data()) + offset;
    ASSERT_EQ(cubit_device_upload(device.handle(), at, words.data(), 4 * words.size(), nullptr), CUBIT_OK);
  };
  write(0, std::vector<std::uint32_t>(workspace.bytes() / 4, 0x7fc0a5a5));
  expect_refused([&] { launch(nullptr); });
  write(0, std::vector<std::uint32_t>(CUBIT_WORKSPACE_ZEROED_BYTES / 4, 0));
  for (int i = 0; i < 2; ++i) {
    launch(nullptr);
    EXPECT_TRUE(on_device.compare(problem).good()) << "launch " << i;
    EXPECT_NO_THROW(device.check_workspace(workspace.data()));
  }
  cubit_stream const stream = device.create_stream();
  const Graph graph = device.capture(stream, [&] { launch(stream); });
  write(12, {1});
  expect_refused([&] { device.check_workspace(workspace.data()); });
  expect_refused([&] { launch(nullptr); });
  expect_refused([&] { device.replay(graph, stream); });
  write(12, {0});
  EXPECT_NO_THROW(device.replay(graph, stream));
  EXPECT_TRUE(on_device.compare(problem).good());
  device.destroy_stream(stream);
}

INSTANTIATE_TEST_SUITE_P(SharedWork, CpuWorkspace,
                         ::testing::Values(SharedWork{"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4",
                                                      {{"batch", 1}, {"context", 1024}, {"kv_heads", 1}}},
                                           SharedWork{"w4a16_gemm:tile_m=16,tile_n=256",
                                                      {{"m", 3}, {"n", 256}, {"k", 2048}}},
                                           SharedWork{"w8a8_gemm:tile_m=16", {{"m", 3}, {"n", 128}, {"k", 2048}}}));

/// Captured launches run at every replay.
TEST(CpuDevice, GraphsAreReplayed) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_80");
  const Problem problem = Problem::random("stream_read", {{"bytes", 4096}}, 1);
  const DeviceCase on_device(device, problem);
  const Kernel kernel = engine().get("stream_read", "cpu:sm_80");
  kernel.prepare(device);
  cubit_stream stream = device.create_stream();
  const Graph graph =
      device.capture(stream, [&] { kernel.launch(on_device.arguments(), {.device = &device, .stream = stream}); });
  EXPECT_FALSE(on_device.compare(problem).good()) << "it ran before the replay";
  device.replay(graph, stream);
  EXPECT_TRUE(on_device.compare(problem).good());
  device.destroy_stream(stream);
}

}  // namespace
}  // namespace cubit::tests
