// Warpgroup matrix multiply-accumulate (wgmma) for Hopper: A comes from registers or from shared memory, and B from
// shared memory.
//
// 16-bit operands: A is 64 × 16. In registers each of the four warps holds 16 rows in the fragment layout of
// mma.m16n8k16 (see mma.cuh); in shared memory A has 64 rows in the layout of an untransposed B. B has n rows of 16
// values along k, in the layout that TMA leaves: rows of 128 bytes (64 values along k), 128-byte swizzle, 8 rows per
// 1024 bytes. B may also be transposed: 16 such rows, one per k, of 64 columns each. Every 8 rows (or columns) of B
// have one accumulator in the layout of mma.m16n8k16.
//
// Byte operands: A is 64 × 32, and B has n rows of 32 values along k. Both are in shared memory, in rows of 128 bytes
// (128 values along k) with the same swizzle. PTX has no transposition of byte operands.
//
// Asynchrony: a wgmma runs while the warp continues. Until the warp has waited for the wgmma, nothing may touch the
// registers of the operation. The wgmma fence orders the warp's earlier register writes before the operation.
//
// PTX ISA: "Asynchronous Warpgroup Level Matrix Instructions", "Matrix descriptor".
#pragma once

#include "core/types.cuh"

namespace cubit {

/// Matrix descriptor of A or B at a shared-memory address, transposed or not. The address must be a multiple of 1024,
/// because the descriptor's base offset is 0. The caller adds 32 / 16 to the descriptor for the next step along k (16
/// values of 16 bits, or 32 bytes) within the rows of 128 bytes, or 2048 / 16 for the next 16 rows of a transposed B.
/// The high half of the descriptor holds the swizzle mode and the stride from one group of 8 rows to the next.
__device__ __forceinline__ uint64 describe_rows_of_128(uint32 address) {
  constexpr uint64 kStride = 1024 / 16;
  constexpr uint64 kSwizzle128 = 1;
  // The hardware ignores the leading dimension when rows are swizzled and no longer than the swizzle.
  constexpr uint64 kLeading = 1;
  return kSwizzle128 << 62 | kStride << 32 | kLeading << 16 | (address & 0x3ffffu) >> 4;
}

/// Orders the warp's earlier register writes before the wgmma operations that follow (wgmma.fence).
__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes the group of wgmma operations since the last commit.
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most kPending of the newest wgmma groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Call after the wait for the wgmma operations that write `sums`: keeps the compiler from reading `sums` before the
/// wait. The compiler believes that an asm statement has written its registers when the statement ends, although the
/// wgmma is still running.
template <int kRowTiles>
__device__ __forceinline__ void settle_sums(float (&sums)[kRowTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
}

template <int kRowTiles>
__device__ __forceinline__ void settle_sums(int (&sums)[kRowTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
    asm volatile("" : "+r"(sums[i][0]), "+r"(sums[i][1]), "+r"(sums[i][2]), "+r"(sums[i][3])::"memory");
}

/// Forces operand A to be computed here, before the fence. The compiler might otherwise move the computation behind the
/// fence, and operations in flight would then wait for one another.
__device__ __forceinline__ void settle_operand(uint32 (&a)[4]) {
  asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])::"memory");
}

/// Types of byte operands, as tags only.
struct SignedByte;
struct E4m3Byte;

// Operand A is four registers, or one descriptor and its transposition. Unused operands pad the second form to the
// length of the first, so that the operands behind A have the same numbers in both forms.
#define CUBIT_OPERANDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kIsTransposed ? 1 : 0)
#define CUBIT_DESCRIBED_OPERANDS "l"(a), "n"(0), "n"(0), "n"(0), "l"(b), "r"(accumulate), "n"(kIsTransposed ? 1 : 0)
// The text behind the accumulators: A, B, the predicate, the signs of A and B, and the transpositions. A from registers
// has no transposition, bytes have none at all, and integers have no signs.
#define CUBIT_A(a0, a1, a2, a3, b, transposed) "{" a0 ", " a1 ", " a2 ", " a3 "}, " b ", adds, 1, 1, " transposed
#define CUBIT_DESCRIBED_A(a0, a1, a2, a3, b, transposed) a0 ", " b ", adds, 1, 1, " a1 ", " transposed
#define CUBIT_E4M3_A(a0, a1, a2, a3, b, transposed) a0 ", " b ", adds, 1, 1"
#define CUBIT_SIGNED_A(a0, a1, a2, a3, b, transposed) a0 ", " b ", adds"
#define CUBIT_WGMMA(types, operands, n, sums, a0, a1, a2, a3, b, accumulate, transposed)                           \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " accumulate ", 0;\nwgmma.mma_async.sync.aligned.m64n" n types " {" sums \
  "}, " operands(a0, a1, a2, a3, b, transposed) ";\n}"
#define CUBIT_TEXTS_8 "%0, %1, %2, %3"
#define CUBIT_TEXTS_16 CUBIT_TEXTS_8 ", %4, %5, %6, %7"
#define CUBIT_TEXTS_24 CUBIT_TEXTS_16 ", %8, %9, %10, %11"
#define CUBIT_TEXTS_32 CUBIT_TEXTS_24 ", %12, %13, %14, %15"
#define CUBIT_TEXTS_48 CUBIT_TEXTS_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define CUBIT_TEXTS_64 CUBIT_TEXTS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define CUBIT_TEXTS_80 CUBIT_TEXTS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CUBIT_TEXTS_96 CUBIT_TEXTS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define CUBIT_TEXTS_112 CUBIT_TEXTS_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define CUBIT_TEXTS_128 CUBIT_TEXTS_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define CUBIT_TEXTS_144 CUBIT_TEXTS_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define CUBIT_TEXTS_160 CUBIT_TEXTS_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define CUBIT_TEXTS_176 CUBIT_TEXTS_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define CUBIT_TEXTS_192 CUBIT_TEXTS_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define CUBIT_TEXTS_208 CUBIT_TEXTS_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define CUBIT_TEXTS_224 CUBIT_TEXTS_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define CUBIT_TEXTS_240 CUBIT_TEXTS_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define CUBIT_TEXTS_256 CUBIT_TEXTS_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define CUBIT_WGMMA_8(...) CUBIT_WGMMA(__VA_ARGS__, "8", CUBIT_TEXTS_8, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
#define CUBIT_WGMMA_16(...) \
  CUBIT_WGMMA(__VA_ARGS__, "16", CUBIT_TEXTS_16, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
#define CUBIT_WGMMA_24(...) \
  CUBIT_WGMMA(__VA_ARGS__, "24", CUBIT_TEXTS_24, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
#define CUBIT_WGMMA_32(...) \
  CUBIT_WGMMA(__VA_ARGS__, "32", CUBIT_TEXTS_32, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
#define CUBIT_WGMMA_48(...) \
  CUBIT_WGMMA(__VA_ARGS__, "48", CUBIT_TEXTS_48, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
#define CUBIT_WGMMA_64(...) \
  CUBIT_WGMMA(__VA_ARGS__, "64", CUBIT_TEXTS_64, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
#define CUBIT_WGMMA_80(...) \
  CUBIT_WGMMA(__VA_ARGS__, "80", CUBIT_TEXTS_80, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
#define CUBIT_WGMMA_96(...) \
  CUBIT_WGMMA(__VA_ARGS__, "96", CUBIT_TEXTS_96, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
#define CUBIT_WGMMA_112(...) \
  CUBIT_WGMMA(__VA_ARGS__, "112", CUBIT_TEXTS_112, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
#define CUBIT_WGMMA_128(...) \
  CUBIT_WGMMA(__VA_ARGS__, "128", CUBIT_TEXTS_128, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
#define CUBIT_WGMMA_144(...) \
  CUBIT_WGMMA(__VA_ARGS__, "144", CUBIT_TEXTS_144, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
#define CUBIT_WGMMA_160(...) \
  CUBIT_WGMMA(__VA_ARGS__, "160", CUBIT_TEXTS_160, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
#define CUBIT_WGMMA_176(...) \
  CUBIT_WGMMA(__VA_ARGS__, "176", CUBIT_TEXTS_176, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
#define CUBIT_WGMMA_192(...) \
  CUBIT_WGMMA(__VA_ARGS__, "192", CUBIT_TEXTS_192, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
#define CUBIT_WGMMA_208(...) \
  CUBIT_WGMMA(__VA_ARGS__, "208", CUBIT_TEXTS_208, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
#define CUBIT_WGMMA_224(...) \
  CUBIT_WGMMA(__VA_ARGS__, "224", CUBIT_TEXTS_224, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
#define CUBIT_WGMMA_240(...) \
  CUBIT_WGMMA(__VA_ARGS__, "240", CUBIT_TEXTS_240, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
#define CUBIT_WGMMA_256(...) \
  CUBIT_WGMMA(__VA_ARGS__, "256", CUBIT_TEXTS_256, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
#define CUBIT_FLOATS(t) "+f"(sums(t)[0]), "+f"(sums(t)[1]), "+f"(sums(t)[2]), "+f"(sums(t)[3])
#define CUBIT_INTEGERS(t) "+r"(sums(t)[0]), "+r"(sums(t)[1]), "+r"(sums(t)[2]), "+r"(sums(t)[3])
#define CUBIT_SUMS_8(of) of(0)
#define CUBIT_SUMS_16(of) CUBIT_SUMS_8(of), of(1)
#define CUBIT_SUMS_24(of) CUBIT_SUMS_16(of), of(2)
#define CUBIT_SUMS_32(of) CUBIT_SUMS_24(of), of(3)
#define CUBIT_SUMS_48(of) CUBIT_SUMS_32(of), of(4), of(5)
#define CUBIT_SUMS_64(of) CUBIT_SUMS_48(of), of(6), of(7)
#define CUBIT_SUMS_80(of) CUBIT_SUMS_64(of), of(8), of(9)
#define CUBIT_SUMS_96(of) CUBIT_SUMS_80(of), of(10), of(11)
#define CUBIT_SUMS_112(of) CUBIT_SUMS_96(of), of(12), of(13)
#define CUBIT_SUMS_128(of) CUBIT_SUMS_112(of), of(14), of(15)
#define CUBIT_SUMS_144(of) CUBIT_SUMS_128(of), of(16), of(17)
#define CUBIT_SUMS_160(of) CUBIT_SUMS_144(of), of(18), of(19)
#define CUBIT_SUMS_176(of) CUBIT_SUMS_160(of), of(20), of(21)
#define CUBIT_SUMS_192(of) CUBIT_SUMS_176(of), of(22), of(23)
#define CUBIT_SUMS_208(of) CUBIT_SUMS_192(of), of(24), of(25)
#define CUBIT_SUMS_224(of) CUBIT_SUMS_208(of), of(26), of(27)
#define CUBIT_SUMS_240(of) CUBIT_SUMS_224(of), of(28), of(29)
#define CUBIT_SUMS_256(of) CUBIT_SUMS_240(of), of(30), of(31)

/// The asm statement of n columns.
#define CUBIT_START(n)                                                                                         \
  if constexpr (kSameType<T, SignedByte>)                                                                      \
    asm volatile(CUBIT_WGMMA_##n("k32.s32.s8.s8", CUBIT_SIGNED_A)                                              \
                 : CUBIT_SUMS_##n(CUBIT_INTEGERS)                                                              \
                 : CUBIT_DESCRIBED_OPERANDS);                                                                  \
  else if constexpr (kSameType<T, E4m3Byte>)                                                                   \
    asm volatile(CUBIT_WGMMA_##n("k32.f32.e4m3.e4m3", CUBIT_E4M3_A)                                            \
                 : CUBIT_SUMS_##n(CUBIT_FLOATS)                                                                \
                 : CUBIT_DESCRIBED_OPERANDS);                                                                  \
  else if constexpr (kIsDescribed && kSameType<T, Half>)                                                       \
    asm volatile(CUBIT_WGMMA_##n("k16.f32.f16.f16", CUBIT_DESCRIBED_A)                                         \
                 : CUBIT_SUMS_##n(CUBIT_FLOATS)                                                                \
                 : CUBIT_DESCRIBED_OPERANDS);                                                                  \
  else if constexpr (kIsDescribed)                                                                             \
    asm volatile(CUBIT_WGMMA_##n("k16.f32.bf16.bf16", CUBIT_DESCRIBED_A)                                       \
                 : CUBIT_SUMS_##n(CUBIT_FLOATS)                                                                \
                 : CUBIT_DESCRIBED_OPERANDS);                                                                  \
  else if constexpr (kSameType<T, Half>)                                                                       \
    asm volatile(CUBIT_WGMMA_##n("k16.f32.f16.f16", CUBIT_A) : CUBIT_SUMS_##n(CUBIT_FLOATS) : CUBIT_OPERANDS); \
  else                                                                                                         \
    asm volatile(CUBIT_WGMMA_##n("k16.f32.bf16.bf16", CUBIT_A) : CUBIT_SUMS_##n(CUBIT_FLOATS) : CUBIT_OPERANDS)

/// Starts sums(i) += a · b, or sums(i) = a · b if `accumulate` is 0. sums(i) is a float (&)[4] for rows 8 i to 8 i + 7
/// of B, or for these columns if B is transposed; i runs over kRowTiles tiles. T is Half or Bfloat16, and `a` is four
/// registers, or the matrix descriptor of 64 rows. T may also be SignedByte, whose sums are int, or E4m3Byte; `a` is
/// then a matrix descriptor.
template <class T, int kRowTiles, bool kIsTransposed, class Sums, class Operand>
__device__ __forceinline__ void start_product_of(const Sums& sums, const Operand& a, uint64 b, uint32 accumulate) {
  constexpr bool kIsDescribed = kSameType<Operand, uint64>;
  constexpr bool kIsOfBytes = kSameType<T, SignedByte> || kSameType<T, E4m3Byte>;
  static_assert(!kIsOfBytes || (kIsDescribed && !kIsTransposed));
  if constexpr (kRowTiles == 1) {
    CUBIT_START(8);
  } else if constexpr (kRowTiles == 2) {
    CUBIT_START(16);
  } else if constexpr (kRowTiles == 3) {
    CUBIT_START(24);
  } else if constexpr (kRowTiles == 4) {
    CUBIT_START(32);
  } else if constexpr (kRowTiles == 6) {
    CUBIT_START(48);
  } else if constexpr (kRowTiles == 8) {
    CUBIT_START(64);
  } else if constexpr (kRowTiles == 10) {
    CUBIT_START(80);
  } else if constexpr (kRowTiles == 12) {
    CUBIT_START(96);
  } else if constexpr (kRowTiles == 14) {
    CUBIT_START(112);
  } else if constexpr (kRowTiles == 16) {
    CUBIT_START(128);
  } else if constexpr (kRowTiles == 18) {
    CUBIT_START(144);
  } else if constexpr (kRowTiles == 20) {
    CUBIT_START(160);
  } else if constexpr (kRowTiles == 22) {
    CUBIT_START(176);
  } else if constexpr (kRowTiles == 24) {
    CUBIT_START(192);
  } else if constexpr (kRowTiles == 26) {
    CUBIT_START(208);
  } else if constexpr (kRowTiles == 28) {
    CUBIT_START(224);
  } else if constexpr (kRowTiles == 30) {
    CUBIT_START(240);
  } else {
    static_assert(kRowTiles == 32);
    CUBIT_START(256);
  }
}

/// Starts the product with accumulators d[i].
template <class T, bool kIsTransposed = false, int kRowTiles, class Operand>
__device__ __forceinline__ void start_product(float (&d)[kRowTiles][4], const Operand& a, uint64 b, uint32 accumulate) {
  start_product_of<T, kRowTiles, kIsTransposed>([&d](int i) -> float(&)[4] { return d[i]; }, a, b, accumulate);
}
/// Starts the product with accumulators d[i][tile].
template <class T, int kRowTiles>
__device__ __forceinline__ void start_product(float (&d)[kRowTiles][2][4], int tile, const uint32 (&a)[4], uint64 b,
                                              uint32 accumulate) {
  start_product_of<T, kRowTiles, false>([&d, tile](int i) -> float(&)[4] { return d[i][tile]; }, a, b, accumulate);
}

/// Starts the product of signed bytes with accumulators d[i]: exact modulo 2^32. `a` and `b` are matrix descriptors.
template <int kRowTiles>
__device__ __forceinline__ void start_byte_product(int (&d)[kRowTiles][4], uint64 a, uint64 b, uint32 accumulate) {
  start_product_of<SignedByte, kRowTiles, false>([&d](int i) -> int(&)[4] { return d[i]; }, a, b, accumulate);
}
/// Starts the product of e4m3 bytes with accumulators d[i]. `a` and `b` are matrix descriptors. The tensor cores keep
/// about 14 bits of each sum, accumulators included.
template <int kRowTiles>
__device__ __forceinline__ void start_byte_product(float (&d)[kRowTiles][4], uint64 a, uint64 b, uint32 accumulate) {
  start_product_of<E4m3Byte, kRowTiles, false>([&d](int i) -> float(&)[4] { return d[i]; }, a, b, accumulate);
}

#undef CUBIT_START
#undef CUBIT_SUMS_256
#undef CUBIT_SUMS_240
#undef CUBIT_SUMS_224
#undef CUBIT_SUMS_208
#undef CUBIT_SUMS_192
#undef CUBIT_SUMS_176
#undef CUBIT_SUMS_160
#undef CUBIT_SUMS_144
#undef CUBIT_SUMS_128
#undef CUBIT_SUMS_112
#undef CUBIT_SUMS_96
#undef CUBIT_SUMS_80
#undef CUBIT_SUMS_64
#undef CUBIT_SUMS_48
#undef CUBIT_SUMS_32
#undef CUBIT_SUMS_24
#undef CUBIT_SUMS_16
#undef CUBIT_SUMS_8
#undef CUBIT_INTEGERS
#undef CUBIT_FLOATS
#undef CUBIT_WGMMA_256
#undef CUBIT_WGMMA_240
#undef CUBIT_WGMMA_224
#undef CUBIT_WGMMA_208
#undef CUBIT_WGMMA_192
#undef CUBIT_WGMMA_176
#undef CUBIT_WGMMA_160
#undef CUBIT_WGMMA_144
#undef CUBIT_WGMMA_128
#undef CUBIT_WGMMA_112
#undef CUBIT_WGMMA_96
#undef CUBIT_WGMMA_80
#undef CUBIT_WGMMA_64
#undef CUBIT_WGMMA_48
#undef CUBIT_WGMMA_32
#undef CUBIT_WGMMA_24
#undef CUBIT_WGMMA_16
#undef CUBIT_WGMMA_8
#undef CUBIT_TEXTS_256
#undef CUBIT_TEXTS_240
#undef CUBIT_TEXTS_224
#undef CUBIT_TEXTS_208
#undef CUBIT_TEXTS_192
#undef CUBIT_TEXTS_176
#undef CUBIT_TEXTS_160
#undef CUBIT_TEXTS_144
#undef CUBIT_TEXTS_128
#undef CUBIT_TEXTS_112
#undef CUBIT_TEXTS_96
#undef CUBIT_TEXTS_80
#undef CUBIT_TEXTS_64
#undef CUBIT_TEXTS_48
#undef CUBIT_TEXTS_32
#undef CUBIT_TEXTS_24
#undef CUBIT_TEXTS_16
#undef CUBIT_TEXTS_8
#undef CUBIT_WGMMA
#undef CUBIT_SIGNED_A
#undef CUBIT_E4M3_A
#undef CUBIT_DESCRIBED_A
#undef CUBIT_A
#undef CUBIT_DESCRIBED_OPERANDS
#undef CUBIT_OPERANDS

}  // namespace cubit
