// Cases of moves, packing, selection, comparison, special registers and generic addresses. PTX ISA, "mov", "selp",
// "setp", "cvta".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

void packing(Cases& cases) {
  const Rows rows = with_random({}, 64, 71);
  add(cases, {.name = "mov.b32 {b16,b16}", .body = "mov.b32 %z0, {%a0, %a1};", .sources = {2, 2}, .results = {4}},
      rows);
  add(cases, {.name = "mov.b64 {b32,b32}", .body = "mov.b64 %z0, {%a0, %a1};", .sources = {4, 4}, .results = {8}},
      rows);
  add(cases,
      {.name = "mov.b64 {b16,b16,b16,b16}",
       .body = "mov.b64 %z0, {%a0, %a1, %a2, %a3};",
       .sources = {2, 2, 2, 2},
       .results = {8}},
      rows);
  add(cases, {.name = "mov.b32 to {b16,b16}", .body = "mov.b32 {%z0, %z1}, %a0;", .sources = {4}, .results = {2, 2}},
      rows);
  add(cases, {.name = "mov.b64 to {b32,b32}", .body = "mov.b64 {%z0, %z1}, %a0;", .sources = {8}, .results = {4, 4}},
      rows);
  add(cases,
      {.name = "mov.b64 to {b16,b16,b16,b16}",
       .body = "mov.b64 {%z0, %z1, %z2, %z3}, %a0;",
       .sources = {8},
       .results = {2, 2, 2, 2}},
      rows);
  add(cases,
      {.name = "mov.pred",
       .body = "setp.ne.u32 %p0, %a0, 0; mov.pred %p1, %p0; selp.u32 %z0, 1, 0, %p1;",
       .sources = {4},
       .results = {4}},
      all_of({0, 1}));
}

/// Constants of each type as operands.
void constants(Cases& cases) {
  add(cases,
      {.name = "mov of constants",
       .body = "mov.u16 %z0, 0xfedc; mov.s32 %z1, -5; mov.u64 %z2, 0x123456789abcdef0; mov.f32 %z3, 0f3fc00000; "
               "mov.f64 %z4, 0d400921fb54442d18; add.f32 %z5, %a0, 0f3f800000; mov.f32 %z6, 1.5; "
               "mov.s64 %z7, -1;",
       .sources = {4},
       .results = {2, 4, 8, 4, 8, 4, 4, 8}},
      all_of({0x3f800000, 0xbf800000}));
}

void selection(Cases& cases) {
  for (const char* type : {"b16", "b32", "b64", "u16", "s32", "f32", "f64", "s64"}) {
    const int bits = std::stoi(type + 1);
    const std::string opcode = fmt::format("selp.{}", type);
    add(cases,
        {.name = opcode,
         .body = fmt::format("setp.ne.u32 %p0, %a2, 0; {} %z0, %a0, %a1, %p0;", opcode),
         .sources = {bits / 8, bits / 8, 4},
         .results = {bits / 8}},
        combinations({integer_corners(bits), integer_corners(bits), Values{0, 1}}));
  }
}

/// Every comparison of a type in one kernel: bit i of the result is comparison i.
void comparisons(Cases& cases, const std::string& type, const std::vector<const char*>& names, const char* flush = "") {
  std::string body = "mov.u32 %z0, 0;\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    body += fmt::format("  setp.{}{}.{} %p0, %a0, %a1; selp.u32 %r0, {}, 0, %p0; or.b32 %z0, %z0, %r0;\n", names[i],
                        flush, type, 1U << i);
  }
  const int bits = std::stoi(type.substr(type.find_first_of("0123456789")));
  const Values corners = type[0] == 'f' ? float_corners(type) : integer_corners(bits);
  add(cases,
      {.name = fmt::format("setp.*{}.{}", flush, type), .body = body, .sources = {bits / 8, bits / 8}, .results = {4}},
      with_random(combinations(corners, 2), 256, 72));
}

void combined(Cases& cases) {
  for (const char* operation : {"and", "or", "xor"}) {
    const std::string opcode = fmt::format("setp.lt.{}.s32", operation);
    add(cases,
        {.name = opcode,
         .body = fmt::format("setp.ne.u32 %p2, %a2, 0; {0} %p0|%p1, %a0, %a1, %p2; {0} %p3, %a0, %a1, !%p2; "
                             "selp.u32 %z0, 1, 0, %p0; selp.u32 %z1, 1, 0, %p1; selp.u32 %z2, 1, 0, %p3;",
                             opcode),
         .sources = {4, 4, 4},
         .results = {4, 4, 4}},
        combinations({Values{0, 1, 0xffffffff}, Values{0, 1, 0xffffffff}, Values{0, 1}}));
    const std::string unordered = fmt::format("setp.geu.{}.f32", operation);
    add(cases,
        {.name = unordered,
         .body = fmt::format("setp.ne.u32 %p2, %a2, 0; {} %p0|%p1, %a0, %a1, %p2; selp.u32 %z0, 1, 0, %p0; "
                             "selp.u32 %z1, 1, 0, %p1;",
                             unordered),
         .sources = {4, 4, 4},
         .results = {4, 4}},
        combinations({Values{0, 0x3f800000, 0x7fc00000}, Values{0, 0x3f800000, 0x7fc00000}, Values{0, 1}}));
  }
}

void registers(Cases& cases) {
  std::string body;
  const char* names[] = {"%tid.x",       "%tid.y",       "%ntid.x",      "%ntid.y",      "%ctaid.x",
                         "%ctaid.y",     "%nctaid.x",    "%nctaid.z",    "%laneid",      "%lanemask_eq",
                         "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "WARP_SZ"};
  int count = 0;
  for (const char* name : names) body += fmt::format("mov.u32 %z{}, {};\n  ", count++, name);
  add(cases,
      {.name = "mov.u32 of special registers",
       .body = body,
       .sources = {4},
       .results = std::vector<int>(static_cast<std::size_t>(count), 4),
       .threads = 96},
      all_of(Values(288, 0)));
}

/// The state space of a generic address, and conversion to a generic address and back.
void spaces(Cases& cases) {
  add(cases,
      {.name = "cvta, isspacep",
       .body = R"(.local .align 8 .b8 own[16];
  mov.u64 %d0, tile; cvta.shared.u64 %d1, %d0; cvta.to.shared.u64 %d2, %d1; sub.u64 %z0, %d2, %d0;
  mov.u64 %d3, own; cvta.local.u64 %d4, %d3; cvta.to.local.u64 %d5, %d4; sub.u64 %z1, %d5, %d3;
  mov.u64 %d6, place; cvta.global.u64 %d7, %d6; cvta.to.global.u64 %d8, %d7; sub.u64 %z2, %d8, %d6;
  isspacep.shared %p0, %d1; isspacep.shared %p1, %d4; isspacep.shared %p2, %d7;
  isspacep.local %p3, %d1; isspacep.local %p4, %d4; isspacep.local %p5, %d7;
  isspacep.global %p6, %d1; isspacep.global %p7, %d4; isspacep.global %p8, %d7;
  st.u32 [%d1], %a0; ld.shared.u32 %z3, [tile]; st.local.u32 [own], %a0; ld.u32 %z4, [%d4];
  selp.u32 %z5, 1, 0, %p0; selp.u32 %z6, 1, 0, %p1; selp.u32 %z7, 1, 0, %p2; selp.u32 %z8, 1, 0, %p3;
  selp.u32 %z9, 1, 0, %p4; selp.u32 %z10, 1, 0, %p5; selp.u32 %z11, 1, 0, %p6; selp.u32 %z12, 1, 0, %p7;
  selp.u32 %z13, 1, 0, %p8;)",
       .sources = {4},
       .results = {8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
       .declarations = ".shared .align 16 .b8 tile[128];\n.global .align 8 .b8 place[16];"},
      all_of({0x1234}));
}

}  // namespace

void add_move(Cases& cases) {
  packing(cases);
  constants(cases);
  selection(cases);
  for (const char* type : {"b16", "b32", "b64"}) comparisons(cases, type, {"eq", "ne"});
  for (const char* type : {"s16", "s32", "s64"}) comparisons(cases, type, {"eq", "ne", "lt", "le", "gt", "ge"});
  for (const char* type : {"u16", "u32", "u64"})
    comparisons(cases, type, {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"});
  const std::vector<const char*> of_floats = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                              "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  comparisons(cases, "f32", of_floats);
  comparisons(cases, "f32", of_floats, ".ftz");
  comparisons(cases, "f64", of_floats);
  combined(cases);
  registers(cases);
  spaces(cases);
}

}  // namespace cubit::conformance
