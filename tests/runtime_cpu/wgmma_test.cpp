// Compares wgmma with a product in double precision, and tests refused forms. The formulas of the matrix layouts are
// independent of the executor's. PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "base/error.hpp"
#include "codegen/fragments.hpp"
#include "tests/runtime_cpu/harness.hpp"
#include "tests/support/wgmma_product.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Product = WgmmaProduct;
using Words = std::vector<std::uint32_t>;
using std::size_t;

constexpr int kThreads = Product::kWarpgroup;

/// Floating-point sums are compared within 10^-6 of the sum of magnitudes. Integers of e4m3 have so few bits that their
/// sums are exact. Signed bytes give the sum modulo 2^32.
void expect_sum(const Product& p, std::uint32_t word, double sum, double size) {
  if (p.is_integer()) {
    ASSERT_EQ(word, static_cast<std::uint32_t>(static_cast<std::int64_t>(sum)));
  } else {
    ASSERT_NEAR(float_of(word), sum, p.element_bytes() == 1 ? 0 : 1e-6 * size);
  }
}

void expect_product(const Product& p) {
  SCOPED_TRACE(p.text());
  const WgmmaNumbers numbers(p);
  const Case kernel{.body = p.body(), .declarations = p.declarations(), .threads = p.threads, .check = true};
  const Words output = run(kernel, numbers.input(p), p.results());
  for (unsigned thread = 0; thread < p.threads; ++thread) {
    for (int i = 0; i < p.n / 2; ++i) {
      const codegen::Element at = codegen::warpgroup_accumulator(static_cast<int>(thread % kThreads), i);
      double sum = numbers.c[static_cast<size_t>(at.row * p.n + at.column)];
      double size = std::abs(sum);
      for (int k = 0; k < p.k(); ++k) {
        const double x = p.scale_a * p.scale_b * numbers.a[static_cast<size_t>(at.row * p.k() + k)] *
                         numbers.b[static_cast<size_t>(at.column * p.k() + k)];
        sum += x;
        size += std::abs(x);
      }
      SCOPED_TRACE(fmt::format("row {}, column {}", at.row, at.column));
      ASSERT_NO_FATAL_FAILURE(
          expect_sum(p, output[thread * static_cast<size_t>(p.n) / 2 + static_cast<size_t>(i)], sum, size));
    }
  }
}

TEST(Wgmma, MultipliesInEveryWidth) {
  for (int n = 8; n <= 256; n += 8) {
    expect_product({.n = n, .type = n % 16 == 0 ? "f16" : "bf16", .a_in_registers = n % 48 != 0});
  }
}

TEST(Wgmma, ReadsEveryLayoutOfB) {
  for (const char* type : {"f16", "bf16"}) {
    for (const int swizzle : {0, 32, 64, 128}) {
      for (const bool along_n : {false, true}) {
        for (const int n : {8, 72, 192})
          expect_product({.n = n, .type = type, .swizzle = swizzle, .b_is_n_major = along_n});
      }
    }
  }
}

TEST(Wgmma, ReadsEveryLayoutOfA) {
  for (const char* type : {"f16", "bf16"}) {
    for (const int swizzle : {0, 32, 64, 128}) {
      for (const bool along_m : {false, true}) {
        expect_product({.n = 16, .type = type, .swizzle = swizzle, .a_in_registers = false, .a_is_m_major = along_m});
      }
    }
  }
}

TEST(Wgmma, NegatesAndAdds) {
  for (const bool in_registers : {false, true}) {
    for (const int scale_a : {-1, 1}) {
      for (const int scale_b : {-1, 1}) {
        expect_product({.n = 24, .a_in_registers = in_registers, .scale_a = scale_a, .scale_b = scale_b, .adds = true});
      }
    }
  }
}

TEST(Wgmma, EachWarpgroupHasRowsOfItsOwn) {
  expect_product({.n = 40, .a_in_registers = false, .threads = 2 * kThreads});
}

TEST(Wgmma, MultipliesBytesInEveryWidth) {
  for (int n = 8; n <= 256; n += 8) {
    const bool in_registers = n % 48 != 0;
    expect_product({.n = n, .type = "e4m3", .a_in_registers = in_registers, .exponents = 0});
    if (n <= 24 || n % 16 == 0) expect_product({.n = n, .type = "s8", .a_in_registers = in_registers});
  }
}

TEST(Wgmma, ReadsEveryLayoutOfBytes) {
  for (const char* type : {"e4m3", "s8"}) {
    for (const int swizzle : {0, 32, 64, 128}) {
      for (const bool in_registers : {false, true}) {
        for (const int n : {8, 24, 192})
          expect_product({.n = n, .type = type, .swizzle = swizzle, .a_in_registers = in_registers, .exponents = 0});
      }
    }
  }
}

TEST(Wgmma, NegatesAndAddsBytes) {
  for (const bool in_registers : {false, true}) {
    for (const int scale_a : {-1, 1}) {
      for (const int scale_b : {-1, 1}) {
        expect_product({.n = 24,
                        .type = "e4m3",
                        .a_in_registers = in_registers,
                        .scale_a = scale_a,
                        .scale_b = scale_b,
                        .adds = true,
                        .exponents = 0});
      }
    }
    expect_product({.n = 48, .type = "s8", .a_in_registers = in_registers, .adds = true});
  }
}

/// The sum of all 32 products of -128 · -128 is added to an accumulator near the end of the range.
TEST(Wgmma, ClampsIntegersOnRequest) {
  const auto sum = [](const std::string& shape, std::uint32_t addend) {
    const Case kernel{
        .body = fmt::format(
            ".reg .b32 %acc<4>; .reg .b64 %desc; mov.u32 %r9, image; shl.b32 %r0, %t, 2; add.u32 %r0, %r9, %r0;\n"
            "st.shared.u32 [%r0], 0x80808080; fence.proxy.async.shared::cta; bar.sync 0;\n"
            "shr.u32 %r9, %r9, 4; cvt.u64.u32 %desc, %r9; or.b64 %desc, %desc, {}; setp.eq.u32 %p0, 1, 1;\n"
            "mov.b32 %acc0, {}; mov.b32 %acc1, %acc0; mov.b32 %acc2, %acc0; mov.b32 %acc3, %acc0;\n"
            "mov.b32 %r1, 0x80808080; wgmma.fence.sync.aligned;\n"
            "wgmma.mma_async.sync.aligned.{} {{%acc0,%acc1,%acc2,%acc3}}, {{%r1,%r1,%r1,%r1}}, %desc, %p0;\n"
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
            "mul.wide.u32 %d0, %t, 4; add.u64 %out, %out, %d0; st.global.b32 [%out], %acc3;",
            std::uint64_t{128 / 16} << 16, addend, shape),
        .declarations = ".shared .align 1024 .b8 image[512];",
        .threads = kThreads,
        .check = true};
    return run(kernel, {}, kThreads).back();
  };
  constexpr std::uint32_t kProducts = 32U * 128 * 128;
  EXPECT_EQ(sum("m64n8k32.s32.s8.s8", 0x7fffffff), 0x7fffffff + kProducts);
  EXPECT_EQ(sum("m64n8k32.satfinite.s32.s8.s8", 0x7fffffff), 0x7fffffffu);
  EXPECT_EQ(sum("m64n8k32.satfinite.s32.s8.s8", 0x80000000), 0x80000000 + kProducts);
}

// ---- refused forms ----

const char* const kDeclared =
    ".reg .f32 %acc<8>; .reg .b64 %desc; mov.u64 %desc, 0; setp.eq.u32 %p0, 1, 1;\n"
    "wgmma.fence.sync.aligned;\n";

std::string registers(const char* name, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i == 0 ? "" : ",", name, first + i);
  return text + "}";
}

std::string failure_of_text(const std::string& text, unsigned threads = kThreads, bool check = false) {
  return failure_of({.body = kDeclared + text,
                     .declarations = ".shared .align 1024 .b8 image[4096];",
                     .threads = threads,
                     .check = check},
                    {}, 1024);
}

std::string product_text(const std::string& shape, const std::string& rest = "%desc, %desc, %p0, 1, 1, 0, 0",
                         int accumulators = 4) {
  return "wgmma.mma_async.sync.aligned." + shape + " " + registers("acc", 0, accumulators) + ", " + rest + ";\n";
}

TEST(Wgmma, RefusesOtherShapesAndTypes) {
  const std::string of_types =
      "the CPU device executes wgmma.mma_async of .f32.f16.f16, .f32.bf16.bf16, .f32.e4m3.e4m3 and .s32.s8.s8, not "
      "sparse, and .satfinite of .s32";
  const auto of_shapes = [](const char* type, const char* depth, const char* columns) {
    return fmt::format("wgmma.mma_async of {} is m64nN{}, where N is {}", type, depth, columns);
  };
  const char* const multiples = "a multiple of 8 from 8 to 256";
  EXPECT_EQ(failure_of_text(product_text("m64n8k16.f32.bf16.bf16")), "");
  for (const char* shape : {"m64n8k16.f16.f16.f16", "m64n8k8.f32.tf32.tf32", "m64n8k32.f32.e5m2.e5m2",
                            "m64n8k32.s32.u8.u8", "m64n8k32.f32.e4m3.e5m2", "m64n8k32.f16.e4m3.e4m3",
                            "m64n8k32.satfinite.f32.e4m3.e4m3", "m64n8k16.f32.f16.bf16"}) {
    EXPECT_THAT(failure_of_text(product_text(shape)), HasSubstr(of_types)) << shape;
  }
  for (const char* shape : {"m64n12k16.f32.bf16.bf16", "m64n264k16.f32.bf16.bf16", "m64n0k16.f32.bf16.bf16",
                            "m64n8k32.f32.bf16.bf16", "m64n8xk16.f32.bf16.bf16"}) {
    EXPECT_THAT(failure_of_text(product_text(shape)), HasSubstr(of_shapes("bf16", "k16", multiples))) << shape;
  }
  for (const char* shape : {"m64n12k32.f32.e4m3.e4m3", "m64n8k16.f32.e4m3.e4m3"})
    EXPECT_THAT(failure_of_text(product_text(shape)), HasSubstr(of_shapes("e4m3", "k32", multiples))) << shape;
  for (const char* shape : {"m64n40k32.s32.s8.s8", "m64n248k32.s32.s8.s8", "m64n272k32.s32.s8.s8"}) {
    EXPECT_THAT(failure_of_text(product_text(shape)),
                HasSubstr(of_shapes("s8", "k32", "8, 24 or a multiple of 16 from 16 to 256")))
        << shape;
  }
  EXPECT_THAT(failure_of_text("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%acc0}, %desc, %desc, %p0;"),
              HasSubstr(of_types));
}

TEST(Wgmma, RefusesOperandsThatDoNotFit) {
  const std::string shape = "m64n8k16.f32.bf16.bf16";
  EXPECT_THAT(failure_of_text(product_text("m64n16k16.f32.bf16.bf16")),
              HasSubstr("the accumulators do not match: m64n16k16 has 8 accumulator registers"));
  EXPECT_THAT(failure_of_text(product_text(shape, "{%r0,%r1}, %desc, %p0, 1, 1, 0")),
              HasSubstr("A is a descriptor or four registers of 32 bits"));
  EXPECT_THAT(failure_of_text(product_text(shape, "{%r0,%r1,%r2,%r3}, %desc, %p0, 1, 1, 0, 0")),
              HasSubstr("with A from registers it has 7 operands"));
  EXPECT_THAT(failure_of_text(product_text(shape, "%desc, %desc, %p0, 1, 1, 0")),
              HasSubstr("with A from a descriptor it has 8 operands"));
  EXPECT_EQ(failure_of_text(product_text("m64n8k32.f32.e4m3.e4m3", "%desc, %desc, %p0, 1, 1")), "");
  EXPECT_THAT(failure_of_text(product_text("m64n8k32.f32.e4m3.e4m3")),
              HasSubstr("with A from a descriptor it has 6 operands"));
  EXPECT_EQ(failure_of_text(product_text("m64n8k32.s32.s8.s8", "%desc, %desc, %p0")), "");
  EXPECT_THAT(failure_of_text(product_text("m64n8k32.s32.s8.s8", "{%r0,%r1,%r2,%r3}, %desc, %p0, 1, 1")),
              HasSubstr("with A from registers it has 4 operands"));
  EXPECT_THAT(failure_of_text(product_text(shape, "%desc, %desc, %p0, 2, 1, 0, 0")), HasSubstr("are 1 or -1"));
  EXPECT_THAT(failure_of_text(product_text(shape, "%desc, %desc, %p0, 1, 1, 0, 2")), HasSubstr("are 0 or 1"));
  EXPECT_THAT(failure_of_text("wgmma.wait_group.sync.aligned -1;"),
              HasSubstr("the operand is the number of groups that may be unfinished, 0 or more"));
}

/// The harness compiles for sm_90a.
TEST(Wgmma, IsOfHopperAlone) {
  std::string text = kernel_text({.body = "wgmma.fence.sync.aligned;"});
  text.replace(text.find("sm_90a"), 6, "sm_90");
  try {
    runtime::cpu::load_program(text, "kernel");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.rule(), "wgmma is an instruction of sm_90a, and this PTX is of sm_90");
  }
}

TEST(Wgmma, StopsAtWhatIsNotAWarpgroup) {
  const std::string product = product_text("m64n8k16.f32.bf16.bf16");
  EXPECT_THAT(failure_of_text(product, 96), HasSubstr("a warpgroup is four warps; this block has 3"));
  EXPECT_THAT(failure_of_text("setp.lt.u32 %p1, %t, 16; @%p1 bra $end; " + product + "$end:"),
              HasSubstr("an instruction of the whole warp is executed by some of its lanes"));
  EXPECT_THAT(failure_of_text("cvt.u64.u32 %desc, %t; " + product),
              HasSubstr("a matrix descriptor is not the same in all lanes"));
  EXPECT_THAT(failure_of_text("setp.lt.u32 %p0, %t, 16; " + product),
              HasSubstr("scale-d is not the same in all lanes"));
}

TEST(Wgmma, StopsAtDescriptorsThatItCannotFollow) {
  const auto with = [](std::uint64_t descriptor) {
    return failure_of_text(fmt::format("mov.u64 %desc, {};", descriptor) + product_text("m64n8k16.f32.bf16.bf16"));
  };
  EXPECT_EQ(with(std::uint64_t{1} << 62 | std::uint64_t{8} << 32), "");
  EXPECT_THAT(
      with(std::uint64_t{3} << 49 | std::uint64_t{1} << 62),
      HasSubstr("has base offset 3; the CPU device executes 0, of tiles that begin at a multiple of 1024 bytes"));
  EXPECT_THAT(with(std::uint64_t{1} << 46), HasSubstr("bits 0x400000000000, which belong to no field"));
  EXPECT_THAT(with(0x3fff), HasSubstr("beyond shared memory"));
}

}  // namespace
}  // namespace cubit::tests
