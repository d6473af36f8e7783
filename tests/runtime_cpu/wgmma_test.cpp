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

void expect_product(const Product& p) {
  SCOPED_TRACE(p.text());
  const WgmmaNumbers numbers(p);
  const Case kernel{.body = p.body(), .declarations = p.declarations(), .threads = p.threads, .check = true};
  const Words output = run(kernel, numbers.input(p), p.results());
  for (unsigned thread = 0; thread < p.threads; ++thread) {
    for (int i = 0; i < p.n / 2; ++i) {
      const codegen::Element at = codegen::warpgroup_accumulator(static_cast<int>(thread % kThreads), i);
      double sum = static_cast<double>(numbers.c[static_cast<size_t>(at.row * p.n + at.column)]);
      double size = std::abs(sum);
      for (int k = 0; k < Product::kK; ++k) {
        const double x = p.scale_a * p.scale_b * numbers.a[static_cast<size_t>(at.row * Product::kK + k)] *
                         numbers.b[static_cast<size_t>(at.column * Product::kK + k)];
        sum += x;
        size += std::abs(x);
      }
      ASSERT_NEAR(float_of(output[thread * static_cast<size_t>(p.n) / 2 + static_cast<size_t>(i)]), sum, 1e-6 * size)
          << "row " << at.row << ", column " << at.column;
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
  const std::string of_types = "the CPU device executes wgmma.mma_async of .f32.f16.f16 and .f32.bf16.bf16, not sparse";
  const std::string of_shapes =
      "the CPU device executes wgmma.mma_async of m64nNk16, where N is a multiple of 8 from 8 to 256";
  EXPECT_EQ(failure_of_text(product_text("m64n8k16.f32.bf16.bf16")), "");
  for (const char* shape : {"m64n8k16.f16.f16.f16", "m64n8k8.f32.tf32.tf32", "m64n8k32.f32.e4m3.e4m3",
                            "m64n8k32.s32.s8.s8", "m64n8k16.f32.f16.bf16"}) {
    EXPECT_THAT(failure_of_text(product_text(shape)), HasSubstr(of_types)) << shape;
  }
  for (const char* shape : {"m64n12k16.f32.bf16.bf16", "m64n264k16.f32.bf16.bf16", "m64n0k16.f32.f16.f16",
                            "m64n8k32.f32.bf16.bf16", "m64n8xk16.f32.bf16.bf16"}) {
    EXPECT_THAT(failure_of_text(product_text(shape)), HasSubstr(of_shapes)) << shape;
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
