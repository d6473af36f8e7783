// Cases of data exchange between lanes. PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

/// Members: all lanes, or the even and the odd lanes separately, which diverge and reconverge.
struct Members {
  const char* name;
  bool diverges;
};
constexpr Members kMembers[] = {{"", false}, {" of half a warp", true}};

/// `instruction` with the members in %r10, once, or in both branches.
std::string under(const Members& members, const std::string& instruction) {
  if (!members.diverges) return "mov.u32 %r10, -1;\n  " + instruction;
  return fmt::format(R"(and.b32 %r11, %t, 1; setp.ne.u32 %p10, %r11, 0;
  @%p10 bra odd;
  mov.u32 %r10, 0x55555555;
  {0}
  bra.uni together;
odd:
  mov.u32 %r10, 0xaaaaaaaa;
  {0}
together:
  bar.warp.sync -1;)",
                     instruction);
}

/// Makes rows; each row has the operands of a warp. Operand 1 is the same for all lanes where `uniform` says so.
Rows lanes(const Rows& warps) {
  Rows rows;
  std::uint64_t state = 81;
  for (const Row& warp : warps) {
    for (int lane = 0; lane < 32; ++lane) {
      rows.push_back(warp);
      rows.back()[0] = random_bits(state);
    }
  }
  return rows;
}

/// The source must be a member within the half warp, so distances are even.
void shuffles(Cases& cases, const Members& members) {
  const Values distances =
      members.diverges ? Values{0, 2, 4, 16, 30} : Values{0, 1, 2, 3, 5, 8, 16, 31, 32, 33, 0xffffffff};
  const Values clamps = {0x1f, 0, 0x1800, 0x181f, 0x1c1f, 0x1e1f, 0x101f, 0x0f, 0x1807, 0x1e01, 0x0a15};
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    const bool by_index = members.diverges && mode[0] == 'i';
    const std::string lane = by_index ? "and.b32 %r12, %t, 1; or.b32 %r12, %r12, %a1; " : "mov.u32 %r12, %a1; ";
    const std::string instruction = fmt::format(
        "{}shfl.sync.{}.b32 %z0|%p0, %a0, %r12, %a2, %r10; "
        "selp.u32 %z1, 1, 0, %p0;",
        lane, mode);
    const Values used = members.diverges ? Values{0x1f, 0, 0x1e1f, 0x181f, 0x101f} : clamps;
    // With up, the clamp is the lowest lane that may be read.
    add(cases,
        {.name = fmt::format("shfl.sync.{}.b32{}", mode, members.name),
         .body = under(members, instruction),
         .sources = {4, 4, 4},
         .results = {4, 4}},
        lanes(combinations({Values{0}, distances, used})));
  }
}

/// Operand 1 is random and different in each lane.
void shuffle_anywhere(Cases& cases) {
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    add(cases,
        {.name = fmt::format("shfl.sync.{}.b32 of each lane's own", mode),
         .body = fmt::format("shfl.sync.{}.b32 %z0|%p0, %a0, %a1, 0x1f, -1; selp.u32 %z1, 1, 0, %p0;", mode),
         .sources = {4, 4},
         .results = {4, 4}},
        with_random({}, 256, 82));
  }
}

/// Warps whose lanes vote all no, all yes, one yes, one no, or anything.
Rows elections() {
  Rows rows;
  std::uint64_t state = 83;
  const Values ballots = {0,          0xffffffff, 0x10,       0xfffffbff,         0x55555555,
                          0xaaaaaaaa, 0x55555554, 0x8001fffe, random_bits(state), random_bits(state)};
  for (const std::uint64_t votes : ballots) {
    for (int lane = 0; lane < 32; ++lane) rows.push_back({votes >> lane & 1, 0, 0, 0});
  }
  return rows;
}

void votes(Cases& cases, const Members& members) {
  for (const char* mode : {"all", "any", "uni", "ballot"}) {
    const bool ballot = mode[0] == 'b';
    const std::string type = ballot ? "b32 %z0" : "pred %p1";
    add(cases,
        {.name = fmt::format("vote.sync.{}{}", mode, members.name),
         .body = under(members, fmt::format("setp.ne.u32 %p0, %a0, 0; vote.sync.{}.{}, %p0, %r10;{}", mode, type,
                                            ballot ? "" : " selp.u32 %z0, 1, 0, %p1;")),
         .sources = {4},
         .results = {4}},
        elections());
  }
}

Rows few_values(int different) {
  Rows rows = with_random({}, 32 * 6, 84);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i][0] =
        different == 1 ? i / 32 * 0x100000001 : rows[i][0] % static_cast<std::uint64_t>(different) * 0x100000001;
  return rows;
}

void matches(Cases& cases, const Members& members) {
  for (const int bits : {32, 64}) {
    Rows rows = few_values(3);
    for (const int different : {1, 2}) {
      for (const Row& row : few_values(different)) rows.push_back(row);
    }
    add(cases,
        {.name = fmt::format("match.any.sync.b{}{}", bits, members.name),
         .body = under(members, fmt::format("match.any.sync.b{} %z0, %a0, %r10;", bits)),
         .sources = {bits / 8},
         .results = {4}},
        rows);
    add(cases,
        {.name = fmt::format("match.all.sync.b{}{}", bits, members.name),
         .body = under(members, fmt::format("match.all.sync.b{} %z0|%p0, %a0, %r10; selp.u32 %z1, 1, 0, %p0;", bits)),
         .sources = {bits / 8},
         .results = {4, 4}},
        rows);
  }
}

void reductions(Cases& cases, const Members& members) {
  for (const char* form :
       {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"}) {
    const std::string opcode = fmt::format("redux.sync.{}", form);
    add(cases,
        {.name = opcode + members.name,
         .body = under(members, opcode + " %z0, %a0, %r10;"),
         .sources = {4},
         .results = {4}},
        with_random(all_of(Values(64, 0xfffffff0)), 32 * 6, 85));
  }
}

void others(Cases& cases, const Members& members) {
  add(cases,
      {.name = fmt::format("elect.sync{}", members.name),
       .body = under(members, "elect.sync %z0|%p0, %r10; selp.u32 %z1, 1, 0, %p0;"),
       .sources = {4},
       .results = {4, 4}},
      all_of(Values(32, 0)));
}

/// One block of four warps that pass values through shared memory in turns.
void block_barriers(Cases& cases) {
  for (const char* barrier : {"bar.sync 0", "barrier.sync 1", "barrier.sync.aligned 2, 128", "bar.sync 3, 128"}) {
    add(cases,
        {.name = barrier,
         .body = fmt::format(R"(mov.u32 %r0, tile; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1;
  st.shared.u32 [%r2], %a0; {0}; xor.b32 %r3, %r1, 508; add.u32 %r3, %r3, %r0; ld.shared.u32 %r4, [%r3]; {0};
  add.u32 %r5, %r4, %t; st.shared.u32 [%r2], %r5; {0}; xor.b32 %r6, %r1, 128; add.u32 %r6, %r6, %r0;
  ld.shared.u32 %z0, [%r6];)",
                             barrier),
         .sources = {4},
         .results = {4},
         .declarations = ".shared .align 16 .b8 tile[512];",
         .threads = 128},
        with_random({}, 256, 86));
  }
}

}  // namespace

void add_warp(Cases& cases) {
  for (const Members& members : kMembers) {
    shuffles(cases, members);
    votes(cases, members);
    matches(cases, members);
    reductions(cases, members);
    others(cases, members);
  }
  shuffle_anywhere(cases);
  block_barriers(cases);
}

}  // namespace cubit::conformance
