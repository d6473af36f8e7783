// Cases of clusters: ranks, the barrier, other blocks' shared memory, and asynchronous writes to it. PTX ISA, "Special
// Registers", "barrier.cluster", "mapa", "getctarank", "st.async", "red.async".
#include <fmt/format.h>

#include "tests/conformance/scenario.hpp"

namespace cubit::conformance {
namespace {

const char* const kShared = ".shared .align 8 .b64 bar;\n.shared .align 128 .b8 tile[2048];";

void registers(Cases& cases) {
  struct Row {
    const char* name;
    std::function<std::uint32_t(unsigned block)> value;  ///< for clusters of two in a grid of four blocks
  };
  const auto constant = [](std::uint32_t value) { return [=](unsigned) { return value; }; };
  for (const Row& row : {Row{"%cluster_ctaid.x", [](unsigned block) { return block % 2; }},
                         {"%cluster_ctaid.y", constant(0)},
                         {"%cluster_nctaid.x", constant(2)},
                         {"%cluster_nctaid.y", constant(1)},
                         {"%cluster_nctaid.z", constant(1)},
                         {"%clusterid.x", [](unsigned block) { return block / 2; }},
                         {"%clusterid.y", constant(0)},
                         {"%nclusterid.x", constant(2)},
                         {"%nclusterid.z", constant(1)},
                         {"%cluster_ctarank", [](unsigned block) { return block % 2; }},
                         {"%cluster_nctarank", constant(2)}}) {
    add(cases, {.name = row.name,
                .body = fmt::format("mov.u32 %z0, {};", row.name),
                .directives = kPair,
                .blocks = 4,
                .model = [value = row.value](unsigned thread, int) { return value(thread / 32); }});
  }
  const std::string ask =
      "mov.pred %p0, %is_explicit_cluster; selp.u32 %z0, 1, 0, %p0; mov.u32 %z1, %cluster_nctarank;";
  add(cases, {.name = "%is_explicit_cluster of a cluster",
              .body = ask,
              .directives = kPair,
              .blocks = 2,
              .results = 2,
              .model = always({1, 2})});
  add(cases, {.name = "%is_explicit_cluster of none", .body = ask, .results = 2, .model = always({0, 1})});
}

/// %r2: the thread's place of 16 bytes in the tile; %r4: the other block's rank; %r3: the same place in the other
/// block. The tile holds numbers of all threads: 0x10001 times the thread in the grid, and this number plus 1, 2 and 3.
const std::string kStart = fmt::format(R"(mov.u32 %r0, tile; shl.b32 %r1, %t, 4; add.u32 %r2, %r0, %r1;
  mov.u32 %r4, %cluster_ctarank; xor.b32 %r4, %r4, 1; mapa.shared::cluster.u32 %r3, %r2, %r4;
  mad.lo.u32 %r20, %i, 0x10001, 0; add.u32 %r21, %r20, 1; add.u32 %r22, %r20, 2; add.u32 %r23, %r20, 3;
  st.shared.v4.u32 [%r2], {{%r20, %r21, %r22, %r23}};
  {})",
                                       kClusterSync);

/// The thread of the same number in the other block of the pair.
unsigned peer(unsigned thread, unsigned threads) {
  return thread / threads % 2 == 0 ? thread + threads : thread - threads;
}
std::uint32_t word_of(unsigned thread, int index) { return thread * 0x10001U + static_cast<std::uint32_t>(index); }

void add_pair(Cases& cases, const std::string& name, const std::string& body, int results,
              std::function<std::uint32_t(unsigned thread, int index)> model) {
  add(cases, {.name = name,
              .declarations = kShared,
              .body = kStart + body + "\n  " + kClusterSync,
              .directives = kPair,
              .threads = 64,
              .blocks = 4,
              .results = results,
              .model = std::move(model)});
}

void barriers(Cases& cases) {
  for (const char* barrier : {"barrier.cluster.arrive; barrier.cluster.wait;",
                              "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
                              "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;",
                              "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
                              "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;"}) {
    // In turns: each block writes the other block's value plus one.
    add_pair(cases, barrier,
             fmt::format("ld.shared::cluster.u32 %r5, [%r3]; {0} add.u32 %r5, %r5, 1; st.shared.u32 [%r2], %r5; {0} "
                         "ld.shared::cluster.u32 %z0, [%r3];",
                         barrier),
             1, [](unsigned thread, int) { return word_of(thread, 1); });
  }
}

void loads(Cases& cases) {
  const auto there = [](unsigned thread, int index) { return word_of(peer(thread, 64), index); };
  for (const char* form : {"ld.shared::cluster.u32", "ld.volatile.shared::cluster.u32",
                           "ld.relaxed.cluster.shared::cluster.u32", "ld.acquire.cluster.shared::cluster.u32"})
    add_pair(cases, form, fmt::format("{} %z0, [%r3+4];", form), 1,
             [=](unsigned thread, int) { return there(thread, 1); });
  add_pair(cases, "ld.shared::cluster.u8, s16, b64",
           "ld.shared::cluster.u8 %z0, [%r3+2]; ld.shared::cluster.s16 %z1, [%r3+6]; "
           "ld.shared::cluster.b64 %d0, [%r3+8]; mov.b64 {%z2, %z3}, %d0;",
           4, [=](unsigned thread, int index) {
             if (index == 0) return there(thread, 0) >> 16 & 0xff;
             if (index == 1) return there(thread, 1) >> 16;
             return there(thread, index);
           });
  add_pair(cases, "ld.shared::cluster.v4.u32", "ld.shared::cluster.v4.u32 {%z0, %z1, %z2, %z3}, [%r3];", 4, there);
  add_pair(cases, "ld.u32 of a generic address of mapa.u64",
           "cvt.u64.u32 %d0, %r2; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r4; ld.u32 %z0, [%d1+8];", 1,
           [=](unsigned thread, int) { return there(thread, 2); });
  add_pair(cases, "mapa.shared::cluster.u64 of the own rank",
           "cvt.u64.u32 %d0, %r2; mov.u32 %r5, %cluster_ctarank; mapa.shared::cluster.u64 %d1, %d0, %r5; "
           "ld.shared::cluster.u32 %z0, [%d1+12];",
           1, [](unsigned thread, int) { return word_of(thread, 3); });
}

void stores(Cases& cases) {
  const auto add_store = [&](const std::string& name, const std::string& store, int results) {
    add_pair(
        cases, name,
        store + "\n  " + kClusterSync +
            [&] {
              std::string loads;
              for (int i = 0; i < results; ++i) loads += fmt::format("ld.shared.u32 %z{}, [%r2+{}]; ", i, 4 * i);
              return loads;
            }(),
        results, [](unsigned thread, int index) { return word_of(peer(thread, 64), index) * 3; });
  };
  const std::string values =
      "mul.lo.u32 %r5, %r20, 3; mul.lo.u32 %r6, %r21, 3; mul.lo.u32 %r7, %r22, 3; "
      "mul.lo.u32 %r8, %r23, 3; mov.b64 %d2, {%r5, %r6}; ";
  for (const char* form : {"st.shared::cluster.u32", "st.volatile.shared::cluster.u32",
                           "st.relaxed.cluster.shared::cluster.u32", "st.release.cluster.shared::cluster.u32"})
    add_store(form, values + fmt::format("{} [%r3], %r5;", form), 1);
  add_store("st.shared::cluster.b64", values + "st.shared::cluster.b64 [%r3], %d2;", 2);
  add_store("st.shared::cluster.v4.u32", values + "st.shared::cluster.v4.u32 [%r3], {%r5, %r6, %r7, %r8};", 4);
  add_store("st.u32 of a generic address of mapa.u64",
            values + "cvt.u64.u32 %d0, %r2; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r4; st.u32 [%d1], %r5;", 1);
}

void addresses(Cases& cases) {
  add_pair(cases, "getctarank, isspacep",
           "getctarank.shared::cluster.u32 %z0, %r2; getctarank.shared::cluster.u32 %z1, %r3; "
           "cvt.u64.u32 %d0, %r2; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r4; getctarank.u64 %z2, %d1; "
           "isspacep.shared::cta %p0, %d0; isspacep.shared::cluster %p1, %d0; isspacep.shared::cta %p2, %d1; "
           "isspacep.shared::cluster %p3, %d1; selp.u32 %r5, 1, 0, %p0; selp.u32 %r6, 2, 0, %p1; "
           "selp.u32 %r7, 4, 0, %p2; selp.u32 %r8, 8, 0, %p3; or.b32 %z3, %r5, %r6; or.b32 %r7, %r7, %r8; "
           "or.b32 %z3, %z3, %r7;",
           4, [](unsigned thread, int index) {
             const std::uint32_t rank = thread / 64 % 2;
             if (index == 3) return 1U | 2U | 8U;
             return index == 0 ? rank : 1 - rank;
           });
}

/// One operation with two operands, of which `before` is in memory.
struct Operation {
  const char* name;
  std::uint32_t before;
  std::uint32_t with;
  std::uint32_t after;
};
constexpr Operation kOperations[] = {{"add.u32", 0xfffffff0, 0x23, 0x13},
                                     {"add.s32", 0xfffffff0, 0x23, 0x13},
                                     {"min.u32", 0xfffffff0, 7, 7},
                                     {"min.s32", 0xfffffff0, 7, 0xfffffff0},
                                     {"max.u32", 0xfffffff0, 7, 0xfffffff0},
                                     {"max.s32", 0xfffffff0, 7, 7},
                                     {"inc.u32", 7, 7, 0},
                                     {"dec.u32", 0, 9, 9},
                                     {"and.b32", 0xff00ff00, 0x0ff00ff0, 0x0f000f00},
                                     {"or.b32", 0xff00ff00, 0x0ff00ff0, 0xfff0fff0},
                                     {"xor.b32", 0xff00ff00, 0x0ff00ff0, 0xf0f0f0f0},
                                     {"exch.b32", 5, 6, 6},
                                     {"add.f32", 0x3fc00000, 0x40100000, 0x40700000}};

/// First each thread updates a word of the other block. Then all threads of a cluster update one word of the cluster's
/// first block.
void atomics(Cases& cases) {
  for (const Operation& given : kOperations) {
    for (const char* root : {"atom", "red"}) {
      const bool returns = root[0] == 'a';
      if (!returns && given.name[0] == 'e') continue;
      const std::string opcode = fmt::format("{}.shared::cluster.{}", root, given.name);
      add_pair(cases, opcode,
               fmt::format("st.shared.u32 [%r2], {}; mov.u32 %r5, {}; mov.u32 %z0, {}; {}{} {}[%r3], %r5;\n  {}"
                           "ld.shared.u32 %z1, [%r2];",
                           given.before, given.with, given.before, kClusterSync, opcode, returns ? "%z0, " : "",
                           kClusterSync),
               2, [=](unsigned, int index) { return index == 0 ? given.before : given.after; });
    }
  }
  add_pair(cases, "atom.shared::cluster.cas.b32",
           fmt::format("atom.shared::cluster.cas.b32 %z0, [%r3], {0}, 77; atom.shared::cluster.cas.b32 %z1, [%r3+4], "
                       "{0}, 77;\n  {1}ld.shared.u32 %z2, [%r2]; ld.shared.u32 %z3, [%r2+4];",
                       0xffffffff, kClusterSync),
           4, [](unsigned thread, int index) { return word_of(index < 2 ? peer(thread, 64) : thread, index % 2); });
  add_pair(cases, "atom.shared::cluster.add.u64",
           fmt::format("atom.relaxed.cluster.shared::cluster.add.u64 %d0, [%r3], 0x100000002;\n  {}"
                       "mov.b64 {{%z0, %z1}}, %d0; ld.shared.u32 %z2, [%r2]; ld.shared.u32 %z3, [%r2+4];",
                       kClusterSync),
           4, [](unsigned thread, int index) {
             return index < 2 ? word_of(peer(thread, 64), index) : word_of(thread, index % 2) + (index == 2 ? 2 : 1);
           });
  add_pair(cases, "red.relaxed.cluster.shared::cluster.add.u32 of one place",
           fmt::format("mov.u32 %r5, 0; mapa.shared::cluster.u32 %r6, %r0, %r5; setp.eq.u32 %p0, %t, 0; @%p0 "
                       "st.shared.u32 [%r0+1024], 0;\n  {0}"
                       "red.relaxed.cluster.shared::cluster.add.u32 [%r6+1024], %t;\n  {0}"
                       "ld.shared::cluster.u32 %z0, [%r6+1024];",
                       kClusterSync),
           1, [](unsigned, int) { return 2U * (63 * 64 / 2); });
}

/// All 64 threads send `bytes` bytes, which the other block's mbarrier counts.
void sendings(Cases& cases) {
  const std::string prepare = R"(setp.eq.u32 %p0, %t, 0; mov.u32 %r9, bar; mapa.shared::cluster.u32 %r10, %r9, %r4;
  @%p0 mbarrier.init.shared.b64 [bar], 1; @%p0 fence.proxy.async.shared::cta;
  )";
  const auto expect = [](int bytes) {
    return fmt::format("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};\n  ", bytes);
  };
  const std::string wait = wait_for_phase("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", "bar", "0");
  const std::string load = "ld.shared.v4.u32 {%z0, %z1, %z2, %z3}, [%r2];";
  const auto add_send = [&](const std::string& opcode, const std::string& value, int bytes) {
    add_pair(cases, opcode,
             prepare + expect(64 * bytes) + kClusterSync + "mov.b64 %d0, {%r20, %r21}; mov.b64 %d1, {%r22, %r23};\n  " +
                 fmt::format("{} [%r3], {}, [%r10];\n  ", opcode, value) + wait + load,
             4,
             [=](unsigned thread, int index) { return word_of(4 * index < bytes ? peer(thread, 64) : thread, index); });
  };
  const std::string send = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";
  add_send(send + ".b32", "%r20", 4);
  add_send(send + ".u64", "%d0", 8);
  add_send(send + ".v2.b32", "{%r20, %r21}", 8);
  add_send(send + ".v4.b32", "{%r20, %r21, %r22, %r23}", 16);
  add_send(send + ".v2.b64", "{%d0, %d1}", 16);
  for (const Operation& given : kOperations) {
    const std::string_view name = given.name;
    if (name.ends_with("f32") || name[0] == 'e') continue;
    const std::string opcode =
        fmt::format("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{}", given.name);
    add_pair(cases, opcode,
             prepare + expect(64 * 4) +
                 fmt::format("st.shared.u32 [%r2], {}; mov.u32 %r5, {};\n  {}{} [%r3], %r5, [%r10];\n  ", given.before,
                             given.with, kClusterSync, opcode) +
                 wait + "ld.shared.u32 %z0, [%r2];",
             1, [=](unsigned, int) { return given.after; });
  }
  const std::string wide = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64";
  add_pair(cases, wide,
           prepare + expect(64 * 8) + kClusterSync +
               fmt::format("mov.u64 %d0, 0x100000002; {} [%r3], %d0, [%r10];\n  ", wide) + wait + load,
           4, [](unsigned thread, int index) {
             return word_of(thread, index) + (index == 0 ? 2 : index == 1 ? 1 : 0);
           });
}

/// Copies 1024 bytes of the tile into the other block's tile, behind the other block's own kilobyte.
void cluster_copies(Cases& cases) {
  struct Form {
    const char* opcode;
    std::uint32_t factor;  ///< factor of the previous value
  };
  for (const Form& form :
       {Form{"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", 0},
        {"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32", 1}}) {
    add_pair(cases, form.opcode,
             fmt::format("setp.eq.u32 %p0, %t, 0; mov.u32 %r9, bar; @%p0 mbarrier.init.shared.b64 [bar], 1; "
                         "st.shared.v4.u32 [%r2+1024], {{%r23, %r22, %r21, %r20}}; fence.proxy.async.shared::cta;\n  "
                         "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n  {}"
                         "mapa.shared::cluster.u32 %r10, %r9, %r4; add.u32 %r11, %r3, 1024;\n  "
                         "@%p0 {} [%r11], [%r0], 1024, [%r10];\n  ",
                         kClusterSync, form.opcode) +
                 wait_for_phase("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", "bar", "0") +
                 "ld.shared.v4.u32 {%z0, %z1, %z2, %z3}, [%r2+1024];",
             4, [factor = form.factor](unsigned thread, int index) {
               return word_of(peer(thread, 64), index) + factor * word_of(thread, 3 - index);
             });
  }
}

/// All threads of the pair arrive at the first block's mbarrier, and its threads wait for them.
void remote_arrivals(Cases& cases) {
  for (const char* form : {"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];",
                           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6], 1;",
                           "cvt.u64.u32 %d0, %r9; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r5; "
                           "mbarrier.arrive.release.cluster.b64 _, [%d1];"}) {
    add_pair(cases, form,
             fmt::format("setp.eq.u32 %p0, %t, 0; mov.u32 %r9, bar; mov.u32 %r5, 0; "
                         "mapa.shared::cluster.u32 %r6, %r9, %r5; @%p0 mbarrier.init.shared.b64 [bar], 128; "
                         "fence.mbarrier_init.release.cluster;\n  {}{}\n  mov.u32 %z0, 5; setp.eq.u32 %p1, %r4, 0; "
                         "@%p1 bra over;\n  ",
                         kClusterSync, form) +
                 wait_for_phase("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", "bar", "0") +
                 "selp.u32 %z0, 1, 0, %p15;\n  over:",
             1, [](unsigned thread, int) { return thread / 64 % 2 == 0 ? 1U : 5U; });
  }
}

}  // namespace

void add_cluster(Cases& cases) {
  registers(cases);
  barriers(cases);
  loads(cases);
  stores(cases);
  addresses(cases);
  atomics(cases);
  sendings(cases);
  cluster_copies(cases);
  remote_arrivals(cases);
}

}  // namespace cubit::conformance
