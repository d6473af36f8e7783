// Cases of loads, stores, asynchronous copies and matrix moves. PTX ISA, "ld", "st", "cp.async", "ldmatrix",
// "stmatrix", "movmatrix".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

constexpr const char* kTile = ".shared .align 16 .b8 tile[2048];";

/// Each thread's 16 bytes of a tile hold %a0 and %a1 (64 bits each). %r0 is their address in shared memory.
constexpr const char* kFill = R"(mov.u32 %r0, tile; shl.b32 %r1, %t, 4; add.u32 %r0, %r0, %r1;
  st.shared.v2.b64 [%r0], {%a0, %a1}; bar.warp.sync -1;
  )";

Rows words() { return with_random({}, 64, 91); }

void elementwise(Cases& cases, const std::string& name, const std::string& body, std::vector<int> results,
                 const std::string& declarations = {}) {
  add(cases,
      {.name = name, .body = body, .sources = {8, 8}, .results = std::move(results), .declarations = declarations},
      words());
}

/// Narrow loads extend to 64 bits according to their type.
void loads(Cases& cases) {
  for (const char* type :
       {"u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64"}) {
    const std::string width(type + 1);
    const bool is_float = type[0] == 'f';
    const int bytes = is_float ? std::stoi(width) / 8 : 8;
    for (const char* space : {"global", "shared", ""}) {
      const std::string dot = space[0] == 0 ? "" : "." + std::string(space);
      std::string body = std::string(kFill) + "mov.u64 %d0, %in; ";
      const char* address = "[%in+1]";
      const bool aligned = std::stoi(width) == 8;
      if (!aligned) address = "[%in+8]";
      if (space[0] == 's') address = aligned ? "[%r0+1]" : "[%r0+8]";
      if (space[0] == 0) {
        body += "cvt.u64.u32 %d1, %r0; cvta.shared.u64 %d2, %d1; ";
        address = aligned ? "[%d2+1]" : "[%d2+8]";
      }
      elementwise(cases, fmt::format("ld{}.{}", dot, type), body + fmt::format("ld{}.{} %z0, {};", dot, type, address),
                  {bytes}, kTile);
    }
  }
}

void load_forms(Cases& cases) {
  for (const char* form :
       {"ld.global.nc", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu", "ld.global.cv",
        "ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.sys.global", "ld.weak.global", "ldu.global",
        "ld.global.L1::no_allocate", "ld.global.nc.L1::no_allocate.L2::128B", "ld.global.L2::64B", "ld.volatile",
        "ld.relaxed.cta"})
    elementwise(cases, fmt::format("{}.b32", form), fmt::format("{}.b32 %z0, [%in+4];", form), {4});
  for (const char* form : {"ld.volatile.shared", "ld.relaxed.cta.shared", "ld.shared::cta"})
    elementwise(cases, fmt::format("{}.b32", form), kFill + fmt::format("{}.b32 %z0, [%r0+4];", form), {4}, kTile);
  elementwise(cases, "ld.const.b32",
              "and.b32 %r0, %t, 3; mov.u64 %d0, table; mad.wide.u32 %d0, %r0, 4, %d0; ld.const.u32 %z0, [%d0];", {4},
              ".const .align 16 .b32 table[4] = {0x11111111, 0x22222222, -3, 4};");
  elementwise(cases, "ld.global of an initialised variable",
              "ld.global.u32 %z0, [table+8]; ld.global.u8 %z1, [table+13];", {4, 4},
              ".global .align 16 .b32 table[4] = {0x11111111, 0x22222222, -3, 0x1234};");
  elementwise(cases, "ld.local, st.local",
              ".local .align 16 .b8 own[32]; mov.u64 %d0, own; and.b32 %r0, %t, 1; shl.b32 %r0, %r0, 4; "
              "cvt.u64.u32 %d1, %r0; add.u64 %d0, %d0, %d1; st.local.v2.b64 [%d0], {%a0, %a1}; "
              "ld.local.u64 %z0, [%d0]; ld.local.s16 %z1, [%d0+10];",
              {8, 4});
  elementwise(cases, "ld.param.b32",
              "ld.param.u32 %r0, [kernel_input]; ld.param.u64 %d0, [kernel_input]; "
              "cvt.u32.u64 %r1, %d0; sub.u32 %z0, %r0, %r1;",
              {4});
}

std::string list(char letter, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i == 0 ? "" : ", ", letter, first + i);
  return text + "}";
}

/// Vectors into and out of each space. The results are the final memory.
void vectors(Cases& cases) {
  for (const int count : {2, 4}) {
    for (const int bits : {8, 16, 32, 64}) {
      if (count * bits > 128) continue;
      const char letter = bits <= 16 ? 's' : bits == 32 ? 'r' : 'd';
      const std::string registers = list(letter, bits == 32 ? 8 : bits == 64 ? 8 : 4, count);
      for (const char* space : {"global", "shared"}) {
        const bool shared = space[0] == 's';
        elementwise(
            cases, fmt::format("ld.{0}.v{1}.b{2}, st.shared.v{1}.b{2}", space, count, bits),
            std::string(kFill) +
                fmt::format("ld.{0}.v{1}.b{2} {3}, [{4}]; bar.warp.sync -1; st.shared.v2.b64 [%r0], {{%a1, %a0}}; "
                            "st.shared.v{1}.b{2} [%r0], {3}; ld.shared.b64 %z0, [%r0]; ld.shared.b64 %z1, [%r0+8];",
                            space, count, bits, registers, shared ? "%r0" : "%in"),
            {8, 8}, kTile);
      }
    }
  }
}

void stores(Cases& cases) {
  for (const char* type :
       {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    const int bits = std::stoi(type + 1);
    const char* source = bits <= 16 ? "%s1" : bits == 32 ? "%r9" : "%d1";
    const std::string narrow = "mov.u64 %d1, %a1; cvt.u32.u64 %r9, %d1; cvt.u16.u32 %s1, %r9; ";
    for (const char* form : {"st.shared", "st.volatile.shared", "st"}) {
      const bool generic = form[2] == 0;
      if (form[3] == 'v' && bits != 32) continue;
      elementwise(
          cases, fmt::format("{}.{}", form, type),
          std::string(kFill) + narrow +
              fmt::format("cvt.u64.u32 %d3, %r0; cvta.shared.u64 %d2, %d3; {}.{} [{}+8], {}; ld.shared.b64 %z0, [%r0]; "
                          "ld.shared.b64 %z1, [%r0+8];",
                          form, type, generic ? "%d2" : "%r0", source),
          {8, 8}, kTile);
    }
  }
  for (const char* form : {"st.global", "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt",
                           "st.relaxed.gpu.global", "st.release.gpu.global", "st.volatile.global"})
    elementwise(
        cases, fmt::format("{}.b32", form),
        fmt::format("mov.u64 %d0, place; mad.wide.u32 %d0, %i, 4, %d0; cvt.u32.u64 %r0, %a0; {}.b32 [%d0], %r0; "
                    "ld.global.b32 %z0, [%d0];",
                    form),
        {4}, ".global .align 16 .b8 place[256];");
}

/// Until the group is waited for, the tile holds %a1. Only bytes that are copied later change.
void copies(Cases& cases) {
  const auto copy = [&](const std::string& name, const std::string& instructions) {
    elementwise(cases, name,
                "mov.u32 %r0, tile; shl.b32 %r1, %t, 5; add.u32 %r0, %r0, %r1; st.shared.v2.b64 [%r0], {%a1, %a1}; "
                "st.shared.v2.b64 [%r0+16], {%a1, %a1};\n  " +
                    instructions +
                    "\n  ld.shared.b64 %z0, [%r0]; ld.shared.b64 %z1, [%r0+8]; ld.shared.b64 %z2, [%r0+16]; "
                    "ld.shared.b64 %z3, [%r0+24];",
                {8, 8, 8, 8}, kTile);
  };
  const std::string wait = " cp.async.wait_all;";
  for (const int bytes : {4, 8, 16}) {
    for (const char* cache : {"ca", "cg"}) {
      if (cache[1] == 'g' && bytes != 16) continue;
      const std::string opcode = fmt::format("cp.async.{}.shared.global", cache);
      copy(fmt::format("{}, {}", opcode, bytes), fmt::format("{} [%r0], [%in], {};", opcode, bytes) + wait);
      for (int part = 0; part <= bytes; part += bytes == 16 ? 3 : bytes == 8 ? 2 : 1) {
        copy(fmt::format("{}, {}, {}", opcode, bytes, part),
             fmt::format("mov.u32 %r5, {}; {} [%r0], [%in], {}, %r5;", part, opcode, bytes) + wait);
      }
      copy(fmt::format("{}, {}, ignored", opcode, bytes),
           fmt::format("and.b32 %r5, %t, 1; setp.ne.u32 %p0, %r5, 0; {} [%r0], [%in], {}, %p0;", opcode, bytes) + wait);
    }
  }
  copy("cp.async.commit_group, wait_group",
       "cp.async.ca.shared.global [%r0], [%in], 8; cp.async.commit_group; cp.async.ca.shared.global [%r0+8], [%in], 8; "
       "cp.async.commit_group; cp.async.wait_group 1; ld.shared.b64 %d5, [%r0]; cp.async.wait_group 0; "
       "st.shared.b64 [%r0+16], %d5;");
}

/// Rows in a permuted order, so that each lane's own address matters.
void matrices(Cases& cases) {
  const std::string rows = std::string(kFill) +
                           "mad.lo.u32 %r5, %t, 13, 5; and.b32 %r5, %r5, 31; shl.b32 %r5, %r5, 4; mov.u32 %r6, tile; "
                           "add.u32 %r5, %r5, %r6; bar.warp.sync -1;\n  ";
  for (const int count : {1, 2, 4}) {
    for (const char* form : {"", ".trans"}) {
      std::string moves;
      for (int i = 0; i < count; ++i) moves += fmt::format("mov.b32 %z{}, %r{}; ", i, 20 + i);
      elementwise(cases, fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16", count, form),
                  rows + fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%r5]; {}", count, form,
                                     list('r', 20, count), moves),
                  std::vector<int>(static_cast<std::size_t>(count), 4), kTile);
      elementwise(cases, fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16", count, form),
                  rows + fmt::format("mov.b64 {{%r20, %r21}}, %a1; mov.b64 {{%r22, %r23}}, %a0; "
                                     "stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%r5], {}; bar.warp.sync -1; "
                                     "ld.shared.b64 %z0, [%r0]; ld.shared.b64 %z1, [%r0+8];",
                                     count, form, list('r', 20, count)),
                  {8, 8}, kTile);
    }
  }
  elementwise(cases, "movmatrix.sync.aligned.m8n8.trans.b16",
              "cvt.u32.u64 %r20, %a0; movmatrix.sync.aligned.m8n8.trans.b16 %z0, %r20;", {4});
}

}  // namespace

void add_memory(Cases& cases) {
  loads(cases);
  load_forms(cases);
  vectors(cases);
  stores(cases);
  copies(cases);
  matrices(cases);
}

}  // namespace cubit::conformance
