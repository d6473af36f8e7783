// Runs damaged kernels through code generation and execution. The outcome is an error or a result, never a crash, a
// hang or an access to foreign memory. ptx/hostile_test.cpp tests the front end alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/error.hpp"
#include "runtime/cpu/encoded_map.hpp"
#include "runtime/cpu/memory_map.hpp"
#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using runtime::cpu::MemoryMap;

/// Most kinds of instruction, with operands of every kind.
constexpr const char* kDeclarations = R"(.shared .align 16 .b8 tile[1024];
.shared .align 8 .b64 barrier_object;
.shared .align 128 .b8 box[128];
.global .align 4 .b32 table[4] = {1, 2, 3, 4};)";
constexpr const char* kBody = R"(
  .local .align 4 .b8 stack[32];
  mov.u32 %r30, 2;
  ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%in];
  cvt.u64.u32 %d4, %t;
  mov.u64 %d5, tile;
  shl.b64 %d6, %d4, 4;
  add.s64 %d7, %d5, %d6;
  and.b64 %d7, %d7, 1008;
  mov.u32 %r4, tile;
  mad.lo.s32 %r5, %t, 16, %r4;
  and.b32 %r5, %r5, 1008;
  st.shared.v4.b32 [%r5], {%r0, %r1, %r2, %r3};
  bar.sync 0;
  setp.lt.and.u32 %p1|%p2, %t, 16, %p0;
  @%p1 bra L1;
  add.sat.s32 %r6, %r0, %r1;
  fma.rn.ftz.f32 %f0, %f1, %f2, %f3;
  cvt.rn.bf16x2.f32 %r7, %f0, %f1;
  bra L2;
L1:
  lop3.b32 %r6, %r0, %r1, %r2, 0x96;
  prmt.b32 %r7, %r0, %r1, 0x5410;
  shf.l.wrap.b32 %r8, %r0, %r1, 5;
  bfe.u32 %r9, %r0, 3, 7;
L2:
  shfl.sync.bfly.b32 %r10|%p3, %r6, 1, 31, -1;
  vote.sync.ballot.b32 %r11, %p3, -1;
  redux.sync.add.s32 %r12, %r10, -1;
  match.any.sync.b32 %r13, %r12, -1;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r14, %r15, %r16, %r17}, [%r5];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r14, %r15, %r16, %r17}, {%r0, %r1}, {%f4, %f5, %f6, %f7};
  movmatrix.sync.aligned.m8n8.trans.b16 %r18, %r14;
  cp.async.ca.shared.global [%r5], [%in], 16, 8;
  cp.async.commit_group;
  cp.async.wait_group 0;
  atom.shared.add.u32 %r19, [%r5], 1;
  atom.global.cas.b32 %r20, [%out], 0, 1;
  ex2.approx.ftz.f32 %f8, %f0;
  dp4a.s32.u32 %r21, %r0, %r1, %r2;
  mul.wide.s32 %d8, %r0, %r1;
  div.s32 %r22, %r0, %r1;
  selp.b32 %r23, %r22, %r21, %p1;
  st.local.b32 [stack+4], %r23;
  ld.local.b32 %r24, [stack+4];
  mov.b64 {%r25, %r26}, %d8;
  setp.eq.u32 %p5, %t, 0;
  @!%p5 bra L3;
  mbarrier.init.shared::cta.b64 [barrier_object], 1;
  add.s64 %d9, %out, 128;
  prefetch.tensormap [%d9];
  cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d9, {%r30, -2}];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier_object], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [box], [%d9, {1, %r30}], [barrier_object], %d8;
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [barrier_object], 0;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d9, {-1, 1}], [box];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  st.global.b32 [%out+4], %r24;
L3:
)";

/// Words, numbers and punctuation of a text, each with the preceding space.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  std::string token;
  const auto kind = [](char c) {
    return std::isspace(static_cast<unsigned char>(c))                           ? 0
           : std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%' ? 1
                                                                                 : 2;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends = !token.empty() && (kind(text[i]) == 2 || kind(text[i]) != kind(text[i - 1]));
    if (ends) tokens.push_back(std::exchange(token, {}));
    token += text[i];
  }
  tokens.push_back(token);
  return tokens;
}

/// Replaces one to three tokens by other tokens.
std::string mutate(std::vector<std::string> tokens, std::mt19937& random) {
  static const std::vector<std::string> kOthers = {
      "99999999999", "-1",      "4294967295", "0",   "%r31", "%d9", "%p5",   "%f9",      "%s3",
      "b64",         "f32",     "f64",        "u16", "pred", "v8",  "x1",    "m8n8k4",   "shared",
      "global",      "generic", "cta",        "_",   "{",    "}",   "%tid",  "%clock64", ".b128",
      "tile",        "stack",   "L1",         "box", "1d",   "5d",  "tensor"};
  for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
    std::string& token = tokens[random() % tokens.size()];
    switch (random() % 4) {
      case 0:
        token = kOthers[random() % kOthers.size()];
        break;
      case 1:
        token.clear();
        break;
      default:
        token = tokens[random() % tokens.size()];
    }
  }
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

/// A map of four rows of 32 bytes in the input, beyond the bytes that the kernel's other instructions read.
void put_map(std::byte* dst, std::uint64_t base) {
  const auto map = runtime::cpu::encode({.base = base,
                                         .element_bytes = 4,
                                         .rank = 2,
                                         .sizes = {8, 4},
                                         .strides = {32},
                                         .box = {8, 4},
                                         .swizzle = runtime::TensorSwizzle::span32});
  std::memcpy(dst, map.bytes.data(), sizeof map);
}

/// How the kernel ends: "" if it ends well.
std::string end_of(const std::string& text) {
  try {
    const auto program = runtime::cpu::load_program(text, "kernel");
    const auto input = runtime::cpu::allocate_aligned(256);
    const auto output = runtime::cpu::allocate_aligned(256);
    const auto first = reinterpret_cast<std::uint64_t>(input.get());
    const auto second = reinterpret_cast<std::uint64_t>(output.get());
    put_map(output.get() + 128, first + 128);
    const MemoryMap memory({{first, first + 256}, {second, second + 256}});
    std::vector<std::byte> parameters(program->layout.parameter_bytes);
    const std::array<std::uint64_t, 2> addresses = {first, second};
    std::memcpy(parameters.data(), addresses.data(), std::min(parameters.size(), sizeof addresses));
    runtime::cpu::execute(*program, {.block = {64, 1, 1},
                                     .patience = std::chrono::milliseconds(50),
                                     .parameters = parameters,
                                     .memory = &memory,
                                     .check = true});
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

TEST(HostileProgram, MutationsEndInAnErrorOrAResult) {
  const std::string text = kernel_text({.body = kBody, .declarations = kDeclarations});
  const char* const rounds_text = std::getenv("CUBIT_HOSTILE_ROUNDS");
  const int rounds = rounds_text == nullptr ? 300 : std::atoi(rounds_text);
  const char* const seed_text = std::getenv("CUBIT_HOSTILE_SEED");
  std::mt19937 random(seed_text == nullptr ? 5 : static_cast<unsigned>(std::atoi(seed_text)));
  const std::vector<std::string> tokens = tokens_of(text);
  ASSERT_EQ(end_of(text), "");
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string mutant = mutate(tokens, random);
    if (const char* const file = std::getenv("CUBIT_HOSTILE_LAST")) {
      std::FILE* const out = std::fopen(file, "w");
      std::fputs(mutant.c_str(), out);
      std::fclose(out);
    }
    refused += end_of(mutant).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, rounds / 4);
  EXPECT_LT(refused, rounds);
}

}  // namespace
}  // namespace cubit::tests
