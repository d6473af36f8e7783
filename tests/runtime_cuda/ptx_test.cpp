// Proves: a GPU loads PTX that its driver can compile and no other PTX, and a GPU that is newer than cubit's table is
// planned for as the newest older architecture.
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/kernel.hpp"
#include "tests/runtime_cuda/harness.hpp"

namespace cubit::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Artifact ptx_of(const std::string& target, const CompilerVersion& compiler = {13, 0, 88}) {
  constexpr std::string_view kText = "// PTX";
  Artifact made;
  made.compiler = compiler;
  made.descriptor = "test:kernel=1";
  made.target = target;
  made.entry_point = "entry";
  made.code = codegen::Code::ptx;
  made.cubin.assign(reinterpret_cast<const std::byte*>(kText.data()),
                    reinterpret_cast<const std::byte*>(kText.data() + kText.size()));
  made.cubin.shrink_to_fit();
  return made;
}

class GpuPtx : public ::testing::Test {
 protected:
  void SetUp() override { fake::plug_in(1); }

  void prepare(const Artifact& artifact, const codegen::LaunchFacts& launch = {}) {
    const auto device = open_cuda_device(0);
    const CurrentDevice current(*device);
    Kernel(artifact, launch).prepare(*device);
  }
  void expect_refused(const Artifact& artifact, const std::string& rule, const std::string& remedy) {
    const Failure failure = fake::failure_of([&] { prepare(artifact); });
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_THAT(failure.what(), AllOf(HasSubstr(rule), HasSubstr(remedy)));
    EXPECT_EQ(driver_.loads(), 0);
  }

  fake::Controls& driver_ = fake::controls();
};

TEST_F(GpuPtx, OfOlderArchitecturesIsGivenToTheDriverWithItsZeroByte) {
  for (const char* target : {"sm_75", "sm_80", "sm_90", "sm_90a"}) prepare(ptx_of(target));
  EXPECT_THAT(driver_.loaded_ptx(), ElementsAre("// PTX", "// PTX", "// PTX", "// PTX"));
}

TEST_F(GpuPtx, OfNewerArchitecturesOrOfAnotherChipAloneIsRefused) {
  expect_refused(ptx_of("sm_100"), "PTX for sm_100 does not run on Fake GPU 0, which is sm_90a",
                 "get the kernel for sm_90a");
  driver_.set_capability(10, 0);
  expect_refused(ptx_of("sm_90a"), "PTX for sm_90a does not run on", "get the kernel for sm_100a");
}

TEST_F(GpuPtx, OfACompilerThatIsNewerThanTheDriverIsRefused) {
  expect_refused(ptx_of("sm_80", {13, 1, 2}), "compiles PTX of CUDA 13.0 and older, and NVRTC 13.1.2 made this PTX",
                 "install a newer driver");
}

TEST_F(GpuPtx, AsksForNoMoreSharedMemoryThanTheDeviceHas) {
  driver_.set_capability(12, 0);
  prepare(ptx_of("sm_80"), {.threads = 128, .dynamic_shared_memory = 50 << 10, .shared_memory_limit = 160 << 10});
  ASSERT_EQ(driver_.limits().size(), 1u);
  EXPECT_EQ(driver_.limits()[0].bytes, 99 << 10);
}

TEST_F(GpuPtx, IsTheCodeOfAGpuThatCubitDoesNotKnow) {
  driver_.set_capability(13, 0);
  const DeviceFacts facts = cuda_device_facts(0);
  EXPECT_EQ(facts.architecture->name, "sm_121");
  EXPECT_EQ(facts.code, codegen::Code::ptx);
  EXPECT_EQ(target_for(facts), "cpu:sm_121");
  prepare(ptx_of("sm_121"));
  EXPECT_THAT(driver_.loaded_ptx(), ElementsAre("// PTX"));
  driver_.set_capability(10, 1);  // between two that cubit knows
  EXPECT_EQ(cuda_device_facts(0).architecture->name, "sm_100");
}

TEST_F(GpuPtx, AGpuThatCubitDoesNotKnowRunsNoCubin) {
  driver_.set_capability(13, 0);
  Artifact cubin = ptx_of("sm_121");
  cubin.code = codegen::Code::cubin;
  expect_refused(cubin, "Fake GPU 0, which cubit does not know, runs no cubin", "get the kernel for cpu:sm_121");
}

TEST_F(GpuPtx, DoesNotMakeAGpuUsableThatIsOlderThanAllArchitectures) {
  driver_.set_capability(7, 0);
  EXPECT_EQ(fake::failure_of([] { cuda_device_facts(0); }).status(), Status::unsupported);
}

}  // namespace
}  // namespace cubit::runtime
