// Proves with the compiler that every row, flag and mma shape of the architecture table exists.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/fragments.hpp"
#include "fmt/format.h"
#include "tests/codegen/nvrtc_probe.hpp"

namespace cubit::codegen {
namespace {

/// The rows that this NVRTC knows. Older versions lack the newest chips; versions from 13.0 on know all rows.
std::vector<const Architecture*> rows_of(const NvrtcProbe& probe) {
  std::vector<const Architecture*> rows;
  for (const Architecture& row : architectures()) {
    const bool supported = std::ranges::count(probe.supported(), row.capability) != 0;
    EXPECT_TRUE(supported || probe.version() < 1300) << row.name;
    if (supported) rows.push_back(&row);
  }
  return rows;
}

std::string kernel(const std::string& body) {
  return "extern \"C\" __global__ void k(unsigned* p, float* f, double* d) {\n" + body + "}\n";
}

TEST(ArchitectureNvrtc, EveryRowCompiles) {
  CUBIT_NEED_NVRTC(probe);
  for (const Architecture* row : rows_of(*probe)) {
    const NvrtcProbe::Result result = probe->compile(kernel(""), row->name);
    EXPECT_TRUE(result.compiled) << row->name << "\n" << result.log;
    EXPECT_FALSE(result.cubin.empty()) << row->name;
  }
}

TEST(ArchitectureNvrtc, EveryTargetOfThisCompilerHasARow) {
  CUBIT_NEED_NVRTC(probe);
  if (probe->version() != 1300) GTEST_SKIP() << "the table is that of NVRTC 13.0";
  for (const int capability : probe->supported()) {
    for (const char* variant : {"", "a", "f"}) {
      const std::string name = fmt::format("sm_{}{}", capability, variant);
      const bool known =
          std::ranges::any_of(architectures(), [&](const Architecture& row) { return row.name == name; });
      EXPECT_EQ(probe->compile(kernel(""), name).compiled, known) << name;
    }
  }
}

struct Feature {
  const char* name;
  bool (*has)(const Architecture&);
  const char* body;
};

constexpr std::array kFeatures = {
    Feature{"ldmatrix", [](const Architecture& row) { return row.ldmatrix; },
            R"(asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(p[0]) : "r"(p[1]));)"},
    Feature{"movmatrix", [](const Architecture& row) { return row.movmatrix; },
            R"(asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(p[0]) : "r"(p[1]));)"},
    Feature{"stmatrix", [](const Architecture& row) { return row.stmatrix; },
            R"(asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(p[0]), "r"(p[1]));)"},
    Feature{"cp_async", [](const Architecture& row) { return row.cp_async; },
            R"(asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(p[0]), "l"(p));)"},
    Feature{"bulk_copy", [](const Architecture& row) { return row.bulk_copy; },
            R"(asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];")"
            R"(:: "r"(p[0]), "l"(p), "r"(p[1]));)"},
    Feature{"clusters", [](const Architecture& row) { return row.cluster_blocks > 0; },
            R"(asm volatile("barrier.cluster.arrive;");)"},
    Feature{"kernel_overlap", [](const Architecture& row) { return row.kernel_overlap; },
            R"(asm volatile("griddepcontrol.wait;" ::: "memory");)"},
    Feature{"wgmma", [](const Architecture& row) { return row.wgmma; },
            R"(asm volatile("wgmma.fence.sync.aligned;");)"},
    Feature{"register_transfer", [](const Architecture& row) { return row.register_transfer; },
            R"(asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");)"},
    Feature{"fp8_conversion", [](const Architecture& row) { return row.fp8_conversion; },
            R"(asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(p[0]) : "h"((short)p[1]));)"},
};

TEST(ArchitectureNvrtc, AFlagIsSetExactlyWhereItsInstructionCompiles) {
  CUBIT_NEED_NVRTC(probe);
  for (const Architecture* row : rows_of(*probe)) {
    for (const Feature& feature : kFeatures) {
      const NvrtcProbe::Result result = probe->compile(kernel(feature.body), row->name);
      EXPECT_EQ(result.compiled, feature.has(*row)) << row->name << " " << feature.name << "\n" << result.log;
    }
  }
}

struct Ptx {
  MmaType type;
  const char* operand;
  const char* accumulator;
  int bits;
  int accumulator_bits;
};

constexpr std::array kPtx = {
    Ptx{MmaType::fp16, "f16", "f32", 16, 32},  Ptx{MmaType::bf16, "bf16", "f32", 16, 32},
    Ptx{MmaType::tf32, "tf32", "f32", 32, 32}, Ptx{MmaType::e4m3, "e4m3", "f32", 8, 32},
    Ptx{MmaType::e5m2, "e5m2", "f32", 8, 32},  Ptx{MmaType::int8, "s8", "s32", 8, 32},
    Ptx{MmaType::int4, "s4", "s32", 4, 32},    Ptx{MmaType::fp64, "f64", "f64", 64, 64},
};

const Ptx& ptx_of(MmaType type) {
  return *std::ranges::find_if(kPtx, [&](const Ptx& ptx) { return ptx.type == type; });
}

const FragmentMap& fragment_of(const MmaShape& shape, char operand, int bits) {
  return find_fragment(fmt::format("mma.m{}n{}k{} {}, {}-bit", shape.m, shape.n, shape.k, operand, bits));
}

/// Kernel text with `count` dependent mma instructions of one shape. The fragment tables give the number of registers
/// per operand.
std::string mma_kernel(const MmaShape& shape, int count) {
  const Ptx& ptx = ptx_of(shape.type);
  const bool wide = ptx.bits == 64;
  const std::string type = wide ? "double" : "unsigned";
  const std::string sum_type = wide ? "double" : ptx.accumulator == std::string("f32") ? "float" : "unsigned";
  const std::string source = wide ? "d" : "p";
  const std::string sums = wide ? "d" : sum_type == "float" ? "f" : "p";
  const char* letter = wide ? "d" : "r";
  const char* sum_letter = wide ? "d" : sum_type == "float" ? "f" : "r";
  const int per_register = wide ? 2 : 1;
  std::string body;
  std::string outputs;
  std::string inputs;
  std::string text = fmt::format("mma.sync.aligned.m{}n{}k{}.row.col.{}.{}.{}.{} ", shape.m, shape.n, shape.k,
                                 ptx.accumulator, ptx.operand, ptx.operand, ptx.accumulator);
  int next = 0;
  const auto operand = [&](int registers, const char* name, const std::string& element, const std::string& from) {
    std::string list;
    for (int i = 0; i < registers; ++i) {
      body += fmt::format("{} {}{} = {}[{} + threadIdx.x];\n", element, name, i, from, next * 32);
      list += fmt::format("{}%{}", i == 0 ? "" : ", ", next++);
      if (*name == 'c') {
        outputs += fmt::format("{}\"+{}\"(c{})", i == 0 ? "" : ", ", sum_letter, i);
      } else {
        inputs += fmt::format("{}\"{}\"({}{})", inputs.empty() ? "" : ", ", letter, name, i);
      }
    }
    return "{" + list + "}";
  };
  const int sums_count = fragment_of(shape, 'C', ptx.accumulator_bits).registers() / per_register;
  const std::string c = operand(sums_count, "c", sum_type, sums);
  const std::string a = operand(fragment_of(shape, 'A', ptx.bits).registers() / per_register, "a", type, source);
  const std::string b = operand(fragment_of(shape, 'B', ptx.bits).registers() / per_register, "b", type, source);
  text += c + ", " + a + ", " + b + ", " + c + ";";
  for (int i = 0; i < count; ++i) body += fmt::format("asm volatile(\"{}\" : {} : {});\n", text, outputs, inputs);
  for (int i = 0; i < sums_count; ++i) body += fmt::format("{}[{} + threadIdx.x] = c{};\n", sums, i * 32, i);
  return kernel(body);
}

std::vector<MmaShape> all_shapes() {
  std::vector<MmaShape> shapes;
  for (const Architecture& row : architectures()) {
    shapes.insert(shapes.end(), row.mma_shapes.begin(), row.mma_shapes.end());
  }
  std::ranges::sort(shapes);
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  return shapes;
}

template <class T>
T at(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.substr(offset, sizeof value).data(), sizeof value);
  return value;
}

/// Counts the tensor-core instructions of a cubin (an ELF file), in its kernel and in functions that ptxas added. An
/// instruction has 16 bytes, with the opcode in the low 12 bits.
int tensor_instructions(const std::string& cubin) {
  constexpr std::array kTensor = {0x237, 0x23c, 0x23f, 0x27a};  // IMMA, HMMA, DMMA, QMMA
  const auto header = at<Elf64_Ehdr>(cubin, 0);
  int count = 0;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
    if ((section.sh_flags & SHF_EXECINSTR) == 0) continue;
    for (std::size_t offset = 0; offset < section.sh_size; offset += 16) {
      count +=
          static_cast<int>(std::ranges::count(kTensor, at<std::uint16_t>(cubin, section.sh_offset + offset) & 0xfff));
    }
  }
  return count;
}

/// Seven mma are seven instructions. If ptxas expands an mma, there are 14 or more, or two in a called function.
bool is_one_instruction(const NvrtcProbe& probe, const MmaShape& shape, std::string_view target) {
  const NvrtcProbe::Result result = probe.compile(mma_kernel(shape, 7), target);
  if (!result.compiled) return false;
  const int count = tensor_instructions(result.cubin);
  EXPECT_GE(count, 1);  // otherwise the opcodes above are incomplete
  return count == 7;
}

TEST(ArchitectureNvrtc, AShapeIsListedExactlyWhereItIsOneInstruction) {
  CUBIT_NEED_NVRTC(probe);
  const std::vector<MmaShape> shapes = all_shapes();
  ASSERT_EQ(shapes.size(), 17U);
  for (const Architecture* row : rows_of(*probe)) {
    if (row->variant != '\0') continue;  // VariantsHaveTheCapacityAndShapesOfTheirChip
    for (const MmaShape& shape : shapes) {
      EXPECT_EQ(is_one_instruction(*probe, shape, row->name), row->has_mma(shape))
          << row->name << " m" << shape.m << "n" << shape.n << "k" << shape.k << " " << ptx_of(shape.type).operand;
    }
  }
}

}  // namespace
}  // namespace cubit::codegen
