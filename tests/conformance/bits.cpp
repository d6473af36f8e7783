// Cases of bit instructions. PTX ISA, "Logic and Shift Instructions", "bfe", "bfi", "bfind", "prmt", "lop3".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

constexpr std::size_t kRandom = 512;

void logic(Cases& cases) {
  for (const int bits : {16, 32, 64}) {
    const Rows rows = with_random(combinations(integer_corners(bits), 2), kRandom, 21);
    for (const char* root : {"and", "or", "xor", "not", "cnot"}) {
      const bool binary = root[1] != 'o' && root[0] != 'c';
      const std::string opcode = fmt::format("{}.b{}", root, bits);
      add(cases,
          {.name = opcode,
           .body = fmt::format("{} %z0, %a0{};", opcode, binary || root[0] == 'x' ? ", %a1" : ""),
           .sources = {bits / 8, bits / 8},
           .results = {bits / 8}},
          rows);
    }
  }
  for (const char* root : {"and", "or", "xor", "not"}) {
    const std::string opcode = fmt::format("{}.pred", root);
    add(cases,
        {.name = opcode,
         .body = fmt::format("setp.ne.u32 %p0, %a0, 0; setp.ne.u32 %p1, %a1, 0; {} %p2, %p0{}; "
                             "selp.u32 %z0, 1, 0, %p2;",
                             opcode, root[0] == 'n' ? "" : ", %p1"),
         .sources = {4, 4},
         .results = {4}},
        combinations(Values{0, 1}, 2));
  }
}

void shifts(Cases& cases) {
  const Values amounts = {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x80000000, 0xffffffff};
  for (const char* type : {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"}) {
    const int bits = std::stoi(type + 1);
    for (const char* root : {"shl", "shr"}) {
      if (root[2] == 'l' && type[0] != 'b') continue;
      const std::string opcode = fmt::format("{}.{}", root, type);
      add(cases, {.name = opcode, .body = opcode + " %z0, %a0, %a1;", .sources = {bits / 8, 4}, .results = {bits / 8}},
          with_random(combinations({integer_corners(bits), amounts}), 64, 22));
    }
  }
  for (const char* direction : {"l", "r"}) {
    for (const char* mode : {"clamp", "wrap"}) {
      const std::string opcode = fmt::format("shf.{}.{}.b32", direction, mode);
      const Values words = {0, 1, 0x80000000, 0xffffffff, 0x12345678, 0xdeadbeef};
      add(cases, {.name = opcode, .body = opcode + " %z0, %a0, %a1, %a2;", .sources = {4, 4, 4}, .results = {4}},
          with_random(combinations({words, words, amounts}), 64, 23));
    }
  }
}

void counts(Cases& cases) {
  const auto unary = [&](const std::string& opcode, int bits, int result) {
    Values values = integer_corners(bits);
    for (int i = 0; i < bits; ++i) values.push_back(1ULL << i);
    add(cases, {.name = opcode, .body = opcode + " %z0, %a0;", .sources = {bits / 8}, .results = {result / 8}},
        with_random(all_of(values), kRandom, 24));
  };
  for (const int bits : {32, 64}) {
    for (const char* root : {"popc", "clz"}) unary(fmt::format("{}.b{}", root, bits), bits, 32);
    unary(fmt::format("brev.b{}", bits), bits, bits);
    for (const char sign : {'u', 's'}) {
      for (const char* mode : {"", ".shiftamt"}) unary(fmt::format("bfind{}.{}{}", mode, sign, bits), bits, 32);
    }
  }
}

/// Every position and length of 0 … 40, and some further values of the low byte.
void fields(Cases& cases) {
  Values places;
  for (std::uint64_t i = 0; i <= 66; i += i < 34 ? 1 : 7) places.push_back(i);
  for (const std::uint64_t extra : {63, 64, 65, 128, 255, 256, 257}) places.push_back(extra);
  const Values words = {0xffffffffffffffff, 0x8123456789abcdef, 0x7edcba98f6543210, 0x8000000080000001};
  for (const int bits : {32, 64}) {
    for (const char sign : {'u', 's'}) {
      const std::string opcode = fmt::format("bfe.{}{}", sign, bits);
      add(cases,
          {.name = opcode, .body = opcode + " %z0, %a0, %a1, %a2;", .sources = {bits / 8, 4, 4}, .results = {bits / 8}},
          with_random(combinations({words, places, places}), kRandom, 25));
    }
    const std::string opcode = fmt::format("bfi.b{}", bits);
    add(cases,
        {.name = opcode,
         .body = opcode + " %z0, %a0, %a1, %a2, %a3;",
         .sources = {bits / 8, bits / 8, 4, 4},
         .results = {bits / 8}},
        with_random(combinations({words, Values{0, 0x5a5a5a5a5a5a5a5a}, places, places}), kRandom, 26));
  }
}

/// All 256 tables, 32 to a kernel.
void tables(Cases& cases) {
  for (int first = 0; first < 256; first += 32) {
    std::string body;
    for (int i = 0; i < 32; ++i) body += fmt::format("lop3.b32 %z{}, %a0, %a1, %a2, {:#x};\n  ", i, first + i);
    Rows rows = {{0xaaaaaaaa, 0xcccccccc, 0xf0f0f0f0, 0}};
    add(cases,
        {.name = fmt::format("lop3.b32 {:#04x} to {:#04x}", first, first + 31),
         .body = body,
         .sources = {4, 4, 4},
         .results = std::vector<int>(32, 4)},
        with_random(std::move(rows), 31, 27));
  }
}

void permutations(Cases& cases) {
  const Values words = {0x80017fff, 0x12f456e8};
  Rows rows;
  for (std::uint64_t selector = 0; selector < 0x10000; ++selector) rows.push_back({words[0], words[1], selector, 0});
  add(cases, {.name = "prmt.b32", .body = "prmt.b32 %z0, %a0, %a1, %a2;", .sources = {4, 4, 4}, .results = {4}},
      with_random(rows, kRandom, 28));
  for (const char* mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    const std::string opcode = fmt::format("prmt.b32.{}", mode);
    const Values selectors = {0, 1, 2, 3, 4, 7, 0xfffffffe};
    add(cases, {.name = opcode, .body = opcode + " %z0, %a0, %a1, %a2;", .sources = {4, 4, 4}, .results = {4}},
        with_random(combinations({words, words, selectors}), 64, 29));
  }
  std::string body;
  const int selectors[] = {0x3210, 0x7654, 0x5410, 0x7632, 0x0123, 0x8888, 0xba98, 0xfedc,
                           0x4440, 0x1054, 0x6420, 0x7531, 0x9f3c, 0x00ff, 0x8c4d, 0xe2b7};
  for (int i = 0; i < 16; ++i) body += fmt::format("prmt.b32 %z{}, %a0, %a1, {:#x};\n  ", i, selectors[i]);
  add(cases,
      {.name = "prmt.b32 of constant selectors", .body = body, .sources = {4, 4}, .results = std::vector<int>(16, 4)},
      with_random(combinations(words, 2), 60, 30));
}

}  // namespace

void add_bits(Cases& cases) {
  logic(cases);
  shifts(cases);
  counts(cases);
  fields(cases);
  tables(cases);
  permutations(cases);
}

}  // namespace cubit::conformance
