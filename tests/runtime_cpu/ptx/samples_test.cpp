// Tests NVRTC's PTX of every operator, for an architecture of each family: the PTX parses and survives printing, and
// with -lineinfo each instruction has its line of the template.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "runtime/cpu/ptx/blocks.hpp"
#include "tests/runtime_cpu/ptx/nvrtc_samples.hpp"
#include "tests/runtime_cpu/ptx/same_module.hpp"

#define CUBIT_NEED_PTX(compiler)                               \
  const PtxCompiler* const compiler = PtxCompiler::instance(); \
  if ((compiler) == nullptr) GTEST_SKIP() << "no NVRTC on this machine"

namespace cubit::runtime::ptx {
namespace {

class Samples : public testing::TestWithParam<const char*> {};

TEST_P(Samples, ParseAndPrint) {
  CUBIT_NEED_PTX(compiler);
  for (const codegen::KernelSource& source : sample_sources(GetParam())) {
    for (const bool line_info : {false, true}) {
      const Module module = parse(compiler->compile(source, line_info));
      EXPECT_EQ(difference(module, parse(print(module))), "") << source.descriptor;
      EXPECT_EQ(module.target, source.target);
      const Function* const kernel = module.find_entry(source.entry_point);
      ASSERT_NE(kernel, nullptr) << source.descriptor;
      EXPECT_EQ(kernel->find_directive("maxntid")->values.at(0), source.launch.threads);
      EXPECT_EQ(kernel->parameters.size(), 1u);
      EXPECT_GT(kernel->body.size(), 20u);
      EXPECT_EQ(kernel->locations.empty(), !line_info);
    }
  }
}

/// In structured code every divergent branch reconverges before the kernel's end.
TEST_P(Samples, BranchesReconverge) {
  CUBIT_NEED_PTX(compiler);
  for (const codegen::KernelSource& source : sample_sources(GetParam())) {
    const Module module = parse(compiler->compile(source, false));
    int branches = 0;
    for (const Block& block : build_blocks(*module.find_entry(source.entry_point))) {
      if (block.successors.size() < 2) continue;
      ++branches;
      EXPECT_NE(block.reconverge, kNone) << source.descriptor << " PTX instruction " << block.first;
    }
    EXPECT_GT(branches, 0) << source.descriptor;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Samples,
                         testing::Values("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"),
                         [](const auto& test) { return std::string(test.param); });

codegen::KernelSource own_source(const std::string& text) {
  codegen::KernelSource source = sample_source("stream_read", "sm_80");
  source.template_name = "own.cuh";
  source.template_text = text;
  source.headers = {{"helper.cuh",
                     "#pragma once\n"
                     "__device__ __forceinline__ int lane() {\n"
                     "  int result;\n"
                     "  asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(result));\n"
                     "  return result;\n"
                     "}\n"
                     "__device__ __forceinline__ int twice() {\n"
                     "  return 2 * lane();\n"
                     "}\n"}};
  return source;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

TEST(LineInfo, AnInlinedInstructionHasItsOwnLineAndTheKernels) {
  CUBIT_NEED_PTX(compiler);
  const Module module = parse(compiler->compile(own_source("#include \"helper.cuh\"\n"
                                                           "extern \"C\" __global__ void own(int* dst) {\n"
                                                           "  dst[0] = lane();\n"
                                                           "\n"
                                                           "  dst[1] = twice();\n"
                                                           "}\n"),
                                                true));
  const Function& kernel = *module.find_entry("own");
  std::vector<int> kernel_lines;
  for (const Instruction& instruction : kernel.body) {
    const auto* special =
        instruction.operands.size() == 2 ? std::get_if<SpecialOperand>(&instruction.operands[1]) : nullptr;
    if (!special || special->name != "%laneid") continue;
    const SourceLocation& place = kernel.locations.at(instruction.location);
    const SourceLocation& outermost = kernel.locations.at(place.outermost);
    EXPECT_TRUE(ends_with(module.file_path(place.file), "helper.cuh"));
    EXPECT_EQ(place.line, 4);
    EXPECT_EQ(module.file_path(outermost.file), "/cubit/own.cuh");
    kernel_lines.push_back(outermost.line);
  }
  EXPECT_EQ(kernel_lines, (std::vector<int>{3, 5}));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines(1);  // from 1
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// An asm statement of several lines has the place of its operands, a few lines below its text.
bool is_near(const std::vector<std::string>& lines, int line, std::string_view wanted) {
  for (int i = std::max(1, line - 3); i <= line && i < static_cast<int>(lines.size()); ++i) {
    if (lines[i].find(wanted) != std::string::npos) return true;
  }
  return false;
}

TEST(LineInfo, TheTensorCoreInstructionsStandInMma) {
  CUBIT_NEED_PTX(compiler);
  const codegen::KernelSource source = sample_source("gqa_decode:heads_per_kv=8", "sm_80");
  const auto header = std::find_if(source.headers.begin(), source.headers.end(),
                                   [](const codegen::Header& h) { return h.name == "core/mma.cuh"; });
  ASSERT_NE(header, source.headers.end());
  const Module module = parse(compiler->compile(source, true));
  const Function& kernel = *module.find_entry(source.entry_point);
  int found = 0;
  for (const Instruction& instruction : kernel.body) {
    if (instruction.root != "mma") continue;
    ++found;
    const SourceLocation& place = kernel.locations.at(instruction.location);
    EXPECT_TRUE(ends_with(module.file_path(place.file), "mma.cuh"));
    EXPECT_TRUE(is_near(lines_of(header->text), place.line, instruction.opcode)) << place.line;
    EXPECT_EQ(module.file_path(kernel.locations.at(place.outermost).file), "/cubit/" + source.template_name);
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace cubit::runtime::ptx
