// Proves: every construct that the front end reads becomes the value that ast.hpp documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime/cpu/ptx/ast.hpp"
#include "tests/runtime_cpu/ptx/sample_text.hpp"

namespace cubit::runtime::ptx {
namespace {

class EveryConstruct : public testing::Test {
 protected:
  const Module module = parse(kEveryConstruct);
  const Function& kernel = *module.find_entry("kernel");

  /// The n-th instruction with the opcode `opcode`.
  const Instruction& find(std::string_view opcode, int n = 0) const {
    for (const Instruction& instruction : kernel.body) {
      if (instruction.opcode == opcode && n-- == 0) return instruction;
    }
    throw std::runtime_error("no " + std::string(opcode));
  }
  std::string register_name(const auto& operand) const {
    return kernel.registers.at(std::get<RegisterOperand>(operand).index).name();
  }
  template <typename T>
  static const T& operand(const Instruction& instruction, int index) {
    return std::get<T>(instruction.operands.at(index));
  }
};

TEST_F(EveryConstruct, Header) {
  EXPECT_EQ(module.version_major, 9);
  EXPECT_EQ(module.version_minor, 0);
  EXPECT_EQ(module.target, "sm_90a");
  EXPECT_EQ(module.address_size, 64);
  EXPECT_EQ(module.file_path(1), "/cubit/kernel.cuh");
  EXPECT_EQ(module.file_path(2), "mma.cuh");
  EXPECT_EQ(module.file_path(3), "");
}

TEST_F(EveryConstruct, ModuleVariables) {
  ASSERT_EQ(module.variables.size(), 10u);
  const auto bits = [&](int variable, int i) { return module.variables[variable].initial.at(i).bits; };
  EXPECT_EQ(module.variables[0].name, "warp_size");
  EXPECT_EQ(bits(0, 0), 32u);
  EXPECT_EQ(bits(1, 0), 0xFFFFFFFFu);
  EXPECT_EQ(bits(2, 0), 0x40800000u);
  EXPECT_EQ(bits(3, 0), 0x3FB999999999999Au);
  const Variable& table = module.variables[4];
  EXPECT_EQ(table.space, Space::constant);
  EXPECT_EQ(table.size(), 8);
  EXPECT_EQ(table.alignment, 8);
  ASSERT_EQ(table.initial.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(bits(4, i), static_cast<std::uint64_t>(i + 1));
  const Variable& pointers = module.variables[5];
  EXPECT_EQ(pointers.initial[0].symbol, 4);
  EXPECT_FALSE(pointers.initial[0].generic);
  EXPECT_TRUE(pointers.initial[1].generic);
  EXPECT_EQ(bits(5, 2), 4u);
  EXPECT_EQ(module.variables[6].vector, 2);
  EXPECT_EQ(module.variables[6].alignment, 8);
  EXPECT_EQ(module.variables[7].elements, 32);
  EXPECT_EQ(module.variables[7].linkage, Linkage::visible);
}

TEST_F(EveryConstruct, DynamicSharedMemoryIsSizedByTheLaunch) {
  const Variable& dynamic = module.variables[8];
  EXPECT_EQ(dynamic.space, Space::shared);
  EXPECT_EQ(dynamic.linkage, Linkage::external);
  EXPECT_TRUE(dynamic.is_array);
  EXPECT_EQ(dynamic.size(), 0);
  EXPECT_EQ(dynamic.alignment, 16);
}

TEST_F(EveryConstruct, FunctionHeads) {
  ASSERT_EQ(module.functions.size(), 3u);
  EXPECT_FALSE(module.functions[0].is_defined);
  EXPECT_EQ(module.functions[0].parameters.size(), 2u);
  EXPECT_EQ(module.functions[1].results.size(), 1u);
  EXPECT_TRUE(kernel.is_entry);
  EXPECT_EQ(kernel.linkage, Linkage::visible);
  ASSERT_EQ(kernel.parameters.size(), 3u);
  EXPECT_EQ(kernel.parameters[0].size(), 32);
  EXPECT_EQ(kernel.parameters[0].alignment, 8);
  EXPECT_EQ(kernel.parameters[1].type, Type::u64);
  EXPECT_EQ(kernel.parameters[1].alignment, 8);
  EXPECT_EQ(kernel.find_directive("maxntid")->values, (std::vector<std::int64_t>{128, 1, 1}));
  EXPECT_EQ(kernel.find_directive("minnctapersm")->values, (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(kernel.find_directive("explicitcluster")->values.empty());
  EXPECT_EQ(kernel.find_directive("maxnreg"), nullptr);
}

TEST_F(EveryConstruct, RegistersAreDense) {
  EXPECT_EQ(kernel.registers[0].name(), "%p0");
  EXPECT_EQ(kernel.registers[0].type, Type::pred);
  EXPECT_EQ(kernel.registers[6 + 5 + 8].name(), "%f8");
  EXPECT_EQ(kernel.registers[6 + 5 + 9 + 16].name(), "loose");
  EXPECT_EQ(kernel.registers[6 + 5 + 9 + 18].name(), "%rd0");
  EXPECT_EQ(kernel.registers[6 + 5 + 9 + 18].type, Type::b64);
}

TEST_F(EveryConstruct, LocalVariables) {
  EXPECT_EQ(kernel.variables[0].name, "arrived");
  EXPECT_EQ(kernel.variables[0].space, Space::shared);
  EXPECT_EQ(kernel.variables[1].size(), 16);
  EXPECT_EQ(kernel.variables[1].space, Space::local);
  EXPECT_EQ(kernel.variables[2].space, Space::param);
}

TEST_F(EveryConstruct, OpcodeAndModifiers) {
  const Instruction& load = find("ld.global.nc.L1::no_allocate.L2::128B.v4.b32");
  EXPECT_EQ(load.root, "ld");
  EXPECT_EQ(load.modifiers,
            (std::vector<std::string_view>{"global", "nc", "L1::no_allocate", "L2::128B", "v4", "b32"}));
  EXPECT_TRUE(load.has("nc"));
  EXPECT_FALSE(load.has("volatile"));
  EXPECT_TRUE(find("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes").has("2d"));
}

TEST_F(EveryConstruct, Guards) {
  EXPECT_EQ(find("bra").guard.predicate, 1);
  EXPECT_FALSE(find("bra").guard.negated);
  EXPECT_TRUE(find("bra.uni").guard.negated);
  EXPECT_EQ(find("ret").guard.predicate, kNone);
}

TEST_F(EveryConstruct, VectorsAndSinks) {
  const auto& loaded = operand<VectorOperand>(find("ld.global.nc.L1::no_allocate.L2::128B.v4.b32"), 0).elements;
  ASSERT_EQ(loaded.size(), 4u);
  EXPECT_EQ(register_name(loaded[0]), "%r6");
  EXPECT_TRUE(std::holds_alternative<Sink>(loaded[2]));
  const auto& sums = operand<VectorOperand>(find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 3).elements;
  EXPECT_TRUE(std::holds_alternative<FloatOperand>(sums.at(3)));
}

TEST_F(EveryConstruct, Addresses) {
  const auto& global = operand<AddressOperand>(find("ld.global.nc.L1::no_allocate.L2::128B.v4.b32"), 1);
  EXPECT_EQ(register_name(global.base), "%rd3");
  EXPECT_EQ(global.offset, -16);
  const auto& parameter = operand<AddressOperand>(find("ld.param.u64"), 1);
  EXPECT_EQ(std::get<SymbolOperand>(parameter.base).kind, SymbolKind::parameter);
  EXPECT_EQ(std::get<SymbolOperand>(parameter.base).index, 0);
  EXPECT_EQ(parameter.offset, 8);
  const auto& shared = operand<AddressOperand>(find("st.shared.u32", 1), 0);
  EXPECT_EQ(std::get<SymbolOperand>(shared.base).kind, SymbolKind::local);
  EXPECT_EQ(std::get<SymbolOperand>(shared.base).offset, 0);
  EXPECT_EQ(shared.offset, 4);
  EXPECT_EQ(std::get<IntegerOperand>(operand<AddressOperand>(find("ld.shared.u32"), 1).base).bits, 64u);
  const auto& map = operand<AddressOperand>(find("cp.async.bulk.tensor.2d.shared::cluster.global."
                                                 "mbarrier::complete_tx::bytes"),
                                            1);
  ASSERT_EQ(map.coordinates.size(), 2u);
  EXPECT_EQ(register_name(map.coordinates[1]), "%r2");
}

TEST_F(EveryConstruct, SymbolsAndSpecialRegisters) {
  const auto& address = operand<SymbolOperand>(find("mov.u64", 1), 1);
  EXPECT_EQ(address.kind, SymbolKind::global);
  EXPECT_EQ(module.variables[address.index].name, "dynamic");
  EXPECT_EQ(address.offset, 16);
  EXPECT_EQ(operand<SymbolOperand>(find("mov.b64"), 1).kind, SymbolKind::parameter);
  EXPECT_EQ(operand<SpecialOperand>(find("mov.u32", 0), 1).name, "%tid.x");
  EXPECT_EQ(operand<SpecialOperand>(find("mov.u32", 2), 1).name, "%laneid");
  EXPECT_EQ(operand<SpecialOperand>(find("mov.u64", 0), 1).name, "%clock64");
  EXPECT_EQ(operand<IntegerOperand>(find("mov.u32", 3), 1).bits, 32u);
}

TEST_F(EveryConstruct, Immediates) {
  const auto& negative = operand<IntegerOperand>(find("setp.lt.s32"), 2);
  EXPECT_EQ(static_cast<std::int64_t>(negative.bits), -12);
  EXPECT_TRUE(negative.is_signed);
  const auto& wait = operand<IntegerOperand>(find("mbarrier.try_wait.parity.shared::cta.b64"), 2);
  EXPECT_EQ(wait.bits, 0x7FFFFFFFu);
  EXPECT_FALSE(wait.is_signed);
  EXPECT_EQ(operand<FloatOperand>(find("add.f32"), 2).bits, 0xFF800000u);
  EXPECT_FALSE(operand<FloatOperand>(find("add.f32"), 2).is_double);
  EXPECT_EQ(operand<FloatOperand>(find("mov.f64"), 1).bits, 0x3FF0000000000000u);
  EXPECT_EQ(operand<FloatOperand>(find("mul.f32"), 2).bits, 0x3FF8000000000000u);
  EXPECT_TRUE(operand<FloatOperand>(find("mul.f32"), 2).is_double);
}

TEST_F(EveryConstruct, PairsAndNegatedPredicates) {
  const auto& flags = operand<PairOperand>(find("setp.lt.s32"), 0);
  EXPECT_EQ(register_name(flags.first), "%p1");
  EXPECT_EQ(register_name(flags.second), "%p2");
  EXPECT_EQ(register_name(operand<PairOperand>(find("shfl.sync.bfly.b32"), 0).second), "%p4");
  EXPECT_TRUE(operand<RegisterOperand>(find("setp.eq.and.b32"), 3).negated);
}

TEST_F(EveryConstruct, ScopesShadowRegisters) {
  const auto& first = std::get<RegisterOperand>(operand<VectorOperand>(find("mov.b32", 0), 0).elements[0]);
  const auto& second = std::get<RegisterOperand>(operand<VectorOperand>(find("mov.b32", 1), 0).elements[1]);
  EXPECT_EQ(kernel.registers[first.index].name(), "tmp");
  EXPECT_EQ(kernel.registers[second.index].name(), "tmp");
  EXPECT_NE(first.index, second.index);
  const Instruction& add = find("add.u32");  // %r1 of the scope, %r15 of the function
  EXPECT_NE(operand<RegisterOperand>(add, 0).index, operand<RegisterOperand>(find("setp.eq.and.b32"), 1).index);
  EXPECT_EQ(register_name(add.operands[1]), "%r15");
}

TEST_F(EveryConstruct, ScopesShadowLabels) {
  const auto position = [&](const Instruction& branch) {
    return kernel.labels.at(operand<LabelOperand>(branch, 0).index).position;
  };
  const Instruction& try_wait = find("mbarrier.try_wait.parity.shared::cta.b64");
  const int wait = static_cast<int>(&try_wait - kernel.body.data());
  EXPECT_EQ(position(find("bra", 1)), wait + 4);  // DONE: the position after the scope
  EXPECT_EQ(position(find("bra", 2)), wait);
  EXPECT_EQ(position(find("bra", 3)), wait + 4);  // the second WAIT
}

TEST_F(EveryConstruct, BranchTables) {
  const Label& table = kernel.labels.at(operand<LabelOperand>(find("brx.idx"), 1).index);
  EXPECT_EQ(table.name, "$L__table");
  ASSERT_EQ(table.targets.size(), 2u);
  EXPECT_EQ(kernel.labels[table.targets[0]].name, "$L__loop");
  EXPECT_EQ(kernel.labels[table.targets[1]].name, "$L__exit");
}

TEST_F(EveryConstruct, Calls) {
  const Instruction& call = find("call.uni");
  EXPECT_EQ(std::get<SymbolOperand>(operand<ListOperand>(call, 0).elements.at(0)).kind, SymbolKind::local);
  EXPECT_EQ(operand<SymbolOperand>(call, 1).kind, SymbolKind::function);
  EXPECT_EQ(operand<SymbolOperand>(call, 1).index, 1);
  const Function& twice = module.functions[1];
  const auto& result = std::get<AddressOperand>(twice.body[2].operands[0]);
  EXPECT_EQ(std::get<SymbolOperand>(result.base).index, 1);  // after the one parameter
}

TEST_F(EveryConstruct, SourcePlaces) {
  const auto place = [&](const Instruction& instruction) { return kernel.locations.at(instruction.location); };
  EXPECT_EQ(place(find("mov.b64")).line, 25);
  EXPECT_EQ(place(find("mov.b64")).inlined_at, kNone);
  const SourceLocation inlined = place(find("mov.b32"));
  EXPECT_EQ(inlined.file, 2);
  EXPECT_EQ(inlined.line, 19);
  EXPECT_EQ(inlined.function, "$L__info_string0");
  EXPECT_EQ(kernel.locations[inlined.outermost].line, 40);
  const SourceLocation twice = place(find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
  EXPECT_EQ(twice.line, 7);
  EXPECT_EQ(kernel.locations[twice.inlined_at].line, 19);
  EXPECT_EQ(kernel.locations[twice.outermost].line, 40);
  EXPECT_EQ(kernel.locations[twice.outermost].file, 1);
  EXPECT_EQ(place(find("ret")).line, 50);
}

TEST_F(EveryConstruct, PtxLines) {
  const std::string text = kEveryConstruct;
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("bar.sync")), '\n');
  EXPECT_EQ(find("bar.sync").ptx_line, line);
}

TEST(Parse, ATerminatingZeroIsNoPartOfTheText) {
  EXPECT_EQ(parse(std::string(".version 8.8\n.target sm_80\n\0", 29)).version_minor, 8);
}

TEST(Parse, AModuleMayMove) {
  Module first = parse(".version 8.8 .target sm_80 .global .b8 x;");
  const Module second = std::move(first);
  EXPECT_EQ(second.variables[0].name, "x");
}

TEST(Parse, WarpgroupProducts) {
  const Module module = parse(
      ".version 8.0 .target sm_90a .entry k { .reg .f32 %f<5>; .reg .b64 %d<3>; .reg .pred p;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %d1, %d2, p, 1, -1, 0, 1;\n"
      "wgmma.wait_group.sync.aligned 0; }");
  const Instruction& product = module.functions[0].body[0];
  EXPECT_EQ(product.root, "wgmma");
  EXPECT_EQ(product.modifiers,
            (std::vector<std::string_view>{"mma_async", "sync", "aligned", "m64n8k16", "f32", "bf16", "bf16"}));
  ASSERT_EQ(product.operands.size(), 8u);
  EXPECT_EQ(std::get<VectorOperand>(product.operands[0]).elements.size(), 4u);
  EXPECT_EQ(std::get<IntegerOperand>(product.operands[5]).bits, ~std::uint64_t{0});
  EXPECT_EQ(std::get<IntegerOperand>(module.functions[0].body[1].operands[0]).bits, 0u);
}

TEST(Parse, WarpgroupProductsOfBytes) {
  const Module module = parse(
      ".version 8.0 .target sm_90a .entry k { .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %d<3>; .reg .pred p;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.s8 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, %d2, p;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %d1, %d2, !p, -1, 1; }");
  const Instruction& integers = module.functions[0].body[0];
  EXPECT_EQ(integers.modifiers, (std::vector<std::string_view>{"mma_async", "sync", "aligned", "m64n8k32", "satfinite",
                                                               "s32", "s8", "s8"}));
  ASSERT_EQ(integers.operands.size(), 4u);
  EXPECT_EQ(std::get<VectorOperand>(integers.operands[1]).elements.size(), 4u);
  const Instruction& floats = module.functions[0].body[1];
  EXPECT_EQ(floats.modifiers,
            (std::vector<std::string_view>{"mma_async", "sync", "aligned", "m64n8k32", "f32", "e4m3", "e4m3"}));
  ASSERT_EQ(floats.operands.size(), 6u);
  EXPECT_EQ(std::get<IntegerOperand>(floats.operands[4]).bits, ~std::uint64_t{0});
}

TEST(Parse, NumbersOfRegistersMayFollowDigits) {
  const Module module = parse(
      ".version 8.8 .target sm_80 .entry k { .reg .b32 %r<2>; .reg .b64 %r1<3>; mov.b64 %r12, %r1; mov.b32 %r0, %r10; "
      "}");
  const auto reg = [&](int instruction, int operand) {
    return std::get<RegisterOperand>(module.functions[0].body[instruction].operands[operand]).index;
  };
  EXPECT_EQ(reg(0, 0), 2 + 2);
  EXPECT_EQ(reg(0, 1), 1);
  EXPECT_EQ(reg(1, 1), 2 + 0);
}

}  // namespace
}  // namespace cubit::runtime::ptx
