// Cases of extended-precision arithmetic. PTX ISA, "Extended-Precision Integer Arithmetic Instructions".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

__extension__ typedef unsigned __int128 Wide;

struct CarryType {
  const char* name;
  int bits;
};
constexpr CarryType kTypes[] = {{"u32", 32}, {"s32", 32}, {"u64", 64}, {"s64", 64}};

Wide limit(int bits) { return Wide{1} << bits; }
std::uint64_t cut(Wide value, int bits) { return static_cast<std::uint64_t>(value & (limit(bits) - 1)); }

/// The half of the product that .lo or .hi selects.
std::uint64_t half_product(const Row& row, const CarryType& type, bool high) {
  if (type.name[0] == 'u') {
    const Wide product = Wide{cut(row[0], type.bits)} * cut(row[1], type.bits);
    return cut(high ? product >> type.bits : product, type.bits);
  }
  const auto extended = [&](std::uint64_t value) {
    const int unused = 64 - type.bits;
    return static_cast<Wide>(static_cast<std::int64_t>(value << unused) >> unused);  // negative: modulo 2^128
  };
  const Wide product = extended(row[0]) * extended(row[1]);
  return cut(high ? product >> type.bits : product, type.bits);
}

/// One instruction. Operand 3 (0 or not) sets the carry flag before; the case also reads the flag after.
struct Link {
  std::string opcode;
  bool subtracts = false;
  bool takes = false;  ///< whether the instruction reads the flag
  int operands = 2;
  std::function<std::uint64_t(const Row&)> first;   ///< the operand that the second is added to or subtracted from
  std::function<std::uint64_t(const Row&)> second;  ///< the second operand
};

/// The flag is set and read by an instruction of the same kind, because the ISA does not mix carries and borrows.
void add_link(Cases& cases, const Link& link, const CarryType& type) {
  const char* const set = link.subtracts ? "sub.cc.u32 %r0, 0, %a3;" : "add.cc.u32 %r0, %a3, 0xffffffff;";
  const char* const get = link.subtracts ? "subc" : "addc";
  const int bytes = type.bits / 8;
  add(cases,
      {.name = link.opcode + (link.takes ? " after a carry" : ""),
       .body = fmt::format("{} {} %z0, %a0, %a1{}; {}.u32 %z1, 0, 0;", link.takes ? set : "", link.opcode,
                           link.operands == 3 ? ", %a2" : "", get),
       .sources = {bytes, bytes, bytes, 4},
       .results = {bytes, 4},
       .model = [link, type](const Row& row) -> Row {
         const Wide first = link.first(row);
         const Wide second = Wide{link.second(row)} + (link.takes && cut(row[3], 32) != 0 ? 1 : 0);
         if (link.subtracts) return {cut(first - second, type.bits), first < second ? 0xffffffff : 0U, 0, 0};
         return {cut(first + second, type.bits), cut((first + second) >> type.bits, 32), 0, 0};
       }},
      [&] {
        const Values corners = integer_corners(type.bits);
        Rows rows = with_random(combinations(corners, link.operands, 4000), 256, 111);
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i][3] = i / 3 % 2;
        return rows;
      }());
}

void links(Cases& cases, const CarryType& type) {
  const auto operand = [bits = type.bits](std::size_t index) {
    return [=](const Row& row) { return cut(row[index], bits); };
  };
  for (const bool takes : {false, true}) {
    const char* const c = takes ? "c" : "";
    add_link(cases, {fmt::format("add{}.cc.{}", c, type.name), false, takes, 2, operand(0), operand(1)}, type);
    add_link(cases, {fmt::format("sub{}.cc.{}", c, type.name), true, takes, 2, operand(0), operand(1)}, type);
    for (const char* part : {"lo", "hi"}) {
      const auto product = [type, high = part[0] == 'h'](const Row& row) { return half_product(row, type, high); };
      add_link(cases, {fmt::format("mad{}.{}.cc.{}", c, part, type.name), false, takes, 3, product, operand(2)}, type);
    }
  }
}

Wide joined(const Row& row, std::size_t first) { return Wide{row[first + 1]} << 64 | row[first]; }
Row parted(Wide value) { return {cut(value, 64), cut(value >> 64, 64), 0, 0}; }

/// 128 bits in four links of 32 and in two links of 64, and a product of 128 bits.
void chains(Cases& cases) {
  const Values words = {0, 1, 0xffffffff, 0x100000000, 0x8000000000000000, ~0ULL};
  const Rows rows = with_random(combinations(words, 4), 256, 112);
  const std::string split =
      "mov.b64 {%r0, %r1}, %a0; mov.b64 {%r2, %r3}, %a1; mov.b64 {%r4, %r5}, %a2; mov.b64 {%r6, %r7}, %a3;\n  ";
  const auto add_chain = [&](const std::string& name, const std::string& body, std::function<Row(const Row&)> model) {
    add(cases, {.name = name, .body = body, .sources = {8, 8, 8, 8}, .results = {8, 8}, .model = std::move(model)},
        rows);
  };
  for (const char* root : {"add", "sub"}) {
    const bool adds = root[0] == 'a';
    const auto model = [adds](const Row& row) {
      return parted(adds ? joined(row, 0) + joined(row, 2) : joined(row, 0) - joined(row, 2));
    };
    add_chain(fmt::format("{0}.cc.u32, {0}c.cc.u32, {0}c.cc.u32, {0}c.u32", root),
              split + fmt::format("{0}.cc.u32 %r8, %r0, %r4; {0}c.cc.u32 %r9, %r1, %r5; {0}c.cc.u32 %r10, %r2, %r6; "
                                  "{0}c.u32 %r11, %r3, %r7; mov.b64 %z0, {{%r8, %r9}}; mov.b64 %z1, {{%r10, %r11}};",
                                  root),
              model);
    add_chain(fmt::format("{0}.cc.u64, {0}c.u64", root),
              fmt::format("{0}.cc.u64 %z0, %a0, %a2; {0}c.u64 %z1, %a1, %a3;", root), model);
  }
  add_chain("mad.lo.cc.u64, madc.hi.u64", "mad.lo.cc.u64 %z0, %a0, %a1, %a2; madc.hi.u64 %z1, %a0, %a1, %a3;",
            [](const Row& row) { return parted(Wide{row[0]} * row[1] + joined(row, 2)); });
  add_chain("mul of 64 bits by mad.cc of 32",
            split +
                "mul.lo.u32 %r8, %r0, %r2; mul.hi.u32 %r9, %r0, %r2; mad.lo.cc.u32 %r9, %r0, %r3, %r9; "
                "madc.hi.u32 %r10, %r0, %r3, 0; mad.lo.cc.u32 %r9, %r1, %r2, %r9; madc.hi.cc.u32 %r10, %r1, %r2, "
                "%r10; addc.u32 %r11, 0, 0; mad.lo.cc.u32 %r10, %r1, %r3, %r10; madc.hi.u32 %r11, %r1, %r3, %r11; "
                "mov.b64 %z0, {%r8, %r9}; mov.b64 %z1, {%r10, %r11};",
            [](const Row& row) { return parted(Wide{row[0]} * row[1]); });
}

}  // namespace

void add_carry(Cases& cases) {
  for (const CarryType& type : kTypes) links(cases, type);
  chains(cases);
}

}  // namespace cubit::conformance
