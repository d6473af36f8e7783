// wgmma against a product in double precision. Matrices are laid into shared memory as a tensor map's copies leave them,
// or as plain core matrices, by formulas that share nothing with the executor's. PTX ISA, "Asynchronous Warpgroup Level
// Matrix Multiply-Accumulate Instructions".
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.hpp"
#include "codegen/fragments.hpp"
#include "runtime/cpu/numbers.hpp"
#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using runtime::cpu::Format;
using runtime::cpu::Rounding;
using ::testing::HasSubstr;
using Words = std::vector<std::uint32_t>;
using std::size_t;

constexpr int kM = 64;
constexpr int kK = 64;
constexpr int kStep = 16;
constexpr int kThreads = 128;

/// One operand in shared memory: `rows` of m or n, times 64 of k.
struct Placed {
  int rows;
  int swizzle;  ///< bytes; 0: none
  bool is_mn_major;

  /// Elements that lie together in a swizzled tile's row.
  int width() const { return swizzle / 2; }
  int tiles() const { return is_mn_major ? (rows + width() - 1) / width() : kK / width(); }
  int tile_bytes() const { return swizzle * (is_mn_major ? kK : rows); }
  int bytes() const { return swizzle == 0 ? rows * kK * 2 : tiles() * tile_bytes(); }

  /// Of core matrices, 128 bytes each: the descriptor's strides without a swizzle, made to differ.
  int core_stride_mn() const { return is_mn_major ? 128 : 128 * (kK / 8); }
  int core_stride_k() const { return is_mn_major ? 128 * (rows / 8) : 128; }

  /// Byte offset of an element.
  int place(int i, int k) const {
    const int along = is_mn_major ? i : k;   // contiguous
    const int across = is_mn_major ? k : i;  // rows of a tile
    if (swizzle == 0) return i / 8 * core_stride_mn() + k / 8 * core_stride_k() + across % 8 * 16 + along % 8 * 2;
    const int chunk = along % width() / 8;
    const int pattern = across * swizzle / 128 % (swizzle / 16);
    return along / width() * tile_bytes() + across * swizzle + (chunk ^ pattern) * 16 + along % 8 * 2;
  }

  /// Byte offset at which the descriptor of the step from k on begins.
  int start(int k) const {
    if (swizzle == 0) return k / 8 * core_stride_k();
    if (is_mn_major) return k * swizzle;
    return k / width() * tile_bytes() + k % width() * 2;
  }

  /// The descriptor's upper bits: everything but the start.
  std::uint64_t descriptor() const {
    const auto mode = static_cast<std::uint64_t>(swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0);
    int leading = is_mn_major ? tile_bytes() : 16;
    int stride = 8 * swizzle;
    if (swizzle == 0) {
      leading = core_stride_k();
      stride = core_stride_mn();
    }
    return mode << 62 | static_cast<std::uint64_t>(stride / 16) << 32 | static_cast<std::uint64_t>(leading / 16) << 16;
  }
};

struct Product {
  int n = 8;
  const char* type = "bf16";
  int swizzle = 128;
  bool a_in_registers = true;
  bool a_is_m_major = false;
  bool b_is_n_major = false;
  int scale_a = 1;
  int scale_b = 1;
  bool adds = false;  ///< to accumulators that are there before
  unsigned threads = kThreads;
};

std::string text_of(const Product& p) {
  return fmt::format("n {}, {}, swizzle {}, A {}{}, B {}, scales {} {}, {} threads", p.n, p.type, p.swizzle,
                     p.a_in_registers ? "in registers" : "described", p.a_is_m_major ? " along m" : "",
                     p.b_is_n_major ? "along n" : "along k", p.scale_a, p.scale_b, p.threads);
}

struct Numbers {
  Format format;
  std::vector<double> a, b;  ///< k after k
  std::vector<float> c;      ///< row-major

  explicit Numbers(const Product& p) : c(static_cast<size_t>(kM * p.n)) {
    find_format(p.type, format);
    std::mt19937 random(static_cast<unsigned>(p.n));
    std::normal_distribution<double> normal;
    const auto draw = [&] { return decode(format, encode(format, normal(random), Rounding::nearest)); };
    for (int i = 0; i < kM * kK; ++i) a.push_back(draw());
    for (int i = 0; i < p.n * kK; ++i) b.push_back(draw());
    for (float& x : c) x = p.adds ? static_cast<float>(normal(random)) : 0;
  }
  std::uint16_t bits(double value) const {
    return static_cast<std::uint16_t>(encode(format, value, Rounding::nearest));
  }
};

constexpr int kAlignment = 4096;  // of the largest pattern, and what 256 threads copy at once

int rounded_up(int bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Shared memory, A first where it is described; then A's fragments of each step and thread; then C's.
Words input_of(const Product& p, const Numbers& numbers, const Placed& a, const Placed& b) {
  const int first_b = p.a_in_registers ? 0 : rounded_up(a.bytes());
  std::vector<std::uint16_t> image(static_cast<size_t>(first_b + rounded_up(b.bytes())) / 2);
  for (int k = 0; k < kK; ++k) {
    for (int i = 0; i < kM && !p.a_in_registers; ++i)
      image[static_cast<size_t>(a.place(i, k)) / 2] = numbers.bits(numbers.a[static_cast<size_t>(i * kK + k)]);
    for (int i = 0; i < p.n; ++i)
      image[static_cast<size_t>(first_b + b.place(i, k)) / 2] =
          numbers.bits(numbers.b[static_cast<size_t>(i * kK + k)]);
  }
  Words words(image.size() / 2);
  std::memcpy(words.data(), image.data(), image.size() * 2);
  const codegen::FragmentMap& fragment = codegen::find_fragment("wgmma.m64k16 A, 16-bit");
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int step = 0; step < kK / kStep; ++step) {
      for (int i = 0; i < 8; i += 2) {
        const auto half = [&](int value) -> std::uint32_t {
          const codegen::Element at = fragment.at(thread % 32, value);
          return numbers.bits(
              numbers.a[static_cast<size_t>((thread / 32 * 16 + at.row) * kK + step * kStep + at.column)]);
        };
        words.push_back(half(i) | half(i + 1) << 16);
      }
    }
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < p.n / 2; ++i) {
      const codegen::Element at = codegen::warpgroup_accumulator(thread, i);
      words.push_back(bits_of(numbers.c[static_cast<size_t>(at.row * p.n + at.column)]));
    }
  }
  return words;
}

std::string registers(const char* name, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i == 0 ? "" : ",", name, first + i);
  return text + "}";
}

/// Copies shared memory's image, loads the registers, multiplies in four steps, stores the accumulators.
Case kernel_of(const Product& p, const Placed& a, const Placed& b) {
  const int first_b = p.a_in_registers ? 0 : rounded_up(a.bytes());
  const int image = first_b + rounded_up(b.bytes());
  std::string text = fmt::format(R"(
    .reg .f32 %acc<{0}>; .reg .b32 %a<16>; .reg .b64 %desc<8>; .reg .pred %first, %more;
    setp.ne.u32 %first, 1, 1; setp.eq.u32 %more, 1, 1;
    mov.u32 %r9, image; shl.b32 %r0, %t, 4; mov.u64 %d0, %in;
    $copy: cvt.u64.u32 %d1, %r0; add.u64 %d1, %d0, %d1; ld.global.v4.u32 {{%r1,%r2,%r3,%r4}}, [%d1];
    add.u32 %r5, %r9, %r0; st.shared.v4.u32 [%r5], {{%r1,%r2,%r3,%r4}};
    add.u32 %r0, %r0, {2}; setp.lt.u32 %p0, %r0, {1}; @%p0 bra $copy;
    fence.proxy.async.shared::cta; bar.sync 0;
    and.b32 %r10, %t, 127; add.u64 %in, %in, {1}; mad.wide.u32 %d2, %r10, {3}, %in; add.u64 %in, %in, {4};
    mad.wide.u32 %d3, %r10, {5}, %in; mad.wide.u32 %out, %t, {5}, %out;
)",
                                 p.n / 2, image, 16 * p.threads, 4 * 16, 4 * 16 * kThreads, 2 * p.n);
  for (int i = 0; i < 16; ++i) text += fmt::format("ld.global.b32 %a{}, [%d2+{}];\n", i, 4 * i);
  for (int i = 0; i < p.n / 2; ++i) text += fmt::format("ld.global.f32 %acc{}, [%d3+{}];\n", i, 4 * i);
  text += "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d4, %r11; wgmma.fence.sync.aligned;\n";
  for (int step = 0; step < kK / kStep; ++step) {
    const int k = step * kStep;
    text += fmt::format("add.u64 %desc0, %d4, {}; add.u64 %desc1, %d4, {};\n",
                        a.descriptor() + static_cast<std::uint64_t>(a.start(k) / 16),
                        b.descriptor() + static_cast<std::uint64_t>((first_b + b.start(k)) / 16));
    text +=
        fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {}, {}, %desc1, {}, {}, {}, {}{};\n", p.n, p.type,
                    p.type, registers("acc", 0, p.n / 2), p.a_in_registers ? registers("a", 4 * step, 4) : "%desc0",
                    step == 0 && !p.adds ? "%first" : "%more", p.scale_a, p.scale_b,
                    p.a_in_registers ? "" : (p.a_is_m_major ? "1, " : "0, "), p.b_is_n_major ? 1 : 0);
  }
  text += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < p.n / 2; ++i) text += fmt::format("st.global.f32 [%out+{}], %acc{};\n", 4 * i, i);
  return {.body = text,
          .declarations = fmt::format(".shared .align 1024 .b8 image[{}];", image),
          .threads = p.threads,
          .check = true};
}

void expect_product(const Product& p) {
  SCOPED_TRACE(text_of(p));
  const Numbers numbers(p);
  const Placed a{kM, p.swizzle, p.a_is_m_major};
  const Placed b{p.n, p.swizzle, p.b_is_n_major};
  const Words output = run(kernel_of(p, a, b), input_of(p, numbers, a, b), p.threads * static_cast<size_t>(p.n) / 2);
  for (unsigned thread = 0; thread < p.threads; ++thread) {
    for (int i = 0; i < p.n / 2; ++i) {
      const codegen::Element at = codegen::warpgroup_accumulator(static_cast<int>(thread % kThreads), i);
      double sum = static_cast<double>(numbers.c[static_cast<size_t>(at.row * p.n + at.column)]);
      double size = std::abs(sum);
      for (int k = 0; k < kK; ++k) {
        const double x = p.scale_a * p.scale_b * numbers.a[static_cast<size_t>(at.row * kK + k)] *
                         numbers.b[static_cast<size_t>(at.column * kK + k)];
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

// ---- what is refused ----

const char* const kDeclared =
    ".reg .f32 %acc<8>; .reg .b64 %desc; mov.u64 %desc, 0; setp.eq.u32 %p0, 1, 1;\n"
    "wgmma.fence.sync.aligned;\n";

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
  const std::string of_types = "wgmma.mma_async is executed of .f32.f16.f16 and .f32.bf16.bf16, and not sparse";
  const std::string of_shapes = "wgmma.mma_async is executed of m64nNk16, N a multiple of 8 from 8 to 256";
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
              HasSubstr("its accumulators do not match: m64n16k16 has 8 registers of them"));
  EXPECT_THAT(failure_of_text(product_text(shape, "{%r0,%r1}, %desc, %p0, 1, 1, 0")),
              HasSubstr("A is a descriptor or four registers of 32 bits"));
  EXPECT_THAT(failure_of_text(product_text(shape, "{%r0,%r1,%r2,%r3}, %desc, %p0, 1, 1, 0, 0")),
              HasSubstr("with A from registers it has 7 operands"));
  EXPECT_THAT(failure_of_text(product_text(shape, "%desc, %desc, %p0, 1, 1, 0")),
              HasSubstr("with A from a descriptor it has 8 operands"));
  EXPECT_THAT(failure_of_text(product_text(shape, "%desc, %desc, %p0, 2, 1, 0, 0")), HasSubstr("are 1 or -1"));
  EXPECT_THAT(failure_of_text(product_text(shape, "%desc, %desc, %p0, 1, 1, 0, 2")), HasSubstr("are 0 or 1"));
  EXPECT_THAT(failure_of_text("wgmma.wait_group.sync.aligned -1;"),
              HasSubstr("it names how many groups may be unfinished, from 0 on"));
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
