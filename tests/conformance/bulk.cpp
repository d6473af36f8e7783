// Cases of bulk copies and reductions. PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.wait_group".
#include <fmt/format.h>

#include <bit>

#include "tests/conformance/scenario.hpp"

namespace cubit::conformance {
namespace {

const char* const kShared =
    ".shared .align 8 .b64 bar;\n.shared .align 128 .b8 tile[4096];\n.global .align 128 .b8 place[4096];";

/// %r1: the tile; %r8: the mbarrier with one expected arrival; %p0: the first thread; %r2: the thread's place in the
/// tile.
const std::string kStart = R"(setp.eq.u32 %p0, %t, 0; mov.u32 %r1, tile; mov.u32 %r8, bar; shl.b32 %r2, %t, 2;
  add.u32 %r2, %r1, %r2; @%p0 mbarrier.init.shared.b64 [bar], 1; @%p0 fence.proxy.async.shared::cta; bar.sync 0;
  )";

std::string wait(int parity) {
  return wait_for_phase("mbarrier.try_wait.parity.shared.b64", "bar", std::to_string(parity));
}
std::string expect(int bytes) {
  return fmt::format("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};\n  ", bytes);
}
std::string copy(const std::string& form, int from, int bytes, const std::string& end = "") {
  return fmt::format("@%p0 cp.async.bulk.{} [%r1+{}], [%in+{}], {}, [%r8]{};\n  ", form, from, from, bytes, end);
}

std::vector<std::uint32_t> numbered(std::size_t count) {
  std::vector<std::uint32_t> words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<std::uint32_t>(0x01010101 * (i % 251) + i);
  return words;
}

/// Checks the first 512 bytes of the tile, which hold 0x55555555 before the copies.
void add_arrival(Cases& cases, const std::string& name, const std::string& copies, unsigned words) {
  const std::string fill = "st.shared.u32 [%r2], 0x55555555; fence.proxy.async.shared::cta; bar.sync 0;\n  ";
  const std::vector<std::uint32_t> input = numbered(1024);
  add(cases, {.name = name,
              .declarations = kShared,
              .body = kStart + fill + copies + "ld.shared.u32 %z0, [%r2];",
              .threads = 128,
              .input = input,
              .model = [=](unsigned thread, int) { return thread < words ? input[thread] : 0x55555555U; }});
}

void bulk_arrivals(Cases& cases) {
  const std::string form = "shared::cluster.global.mbarrier::complete_tx::bytes";
  const std::string own = "shared::cta.global.mbarrier::complete_tx::bytes";
  for (const int bytes : {16, 48, 128, 512}) {
    add_arrival(cases, fmt::format("cp.async.bulk.{}, {}", form, bytes), expect(bytes) + copy(form, 0, bytes) + wait(0),
                static_cast<unsigned>(bytes) / 4);
  }
  add_arrival(cases, fmt::format("cp.async.bulk.{}, 512", own), expect(512) + copy(own, 0, 512) + wait(0), 128);
  add_arrival(cases, fmt::format("cp.async.bulk.{}.L2::cache_hint", form),
              "createpolicy.fractional.L2::evict_first.b64 %d9, 1.0;\n  " + expect(512) +
                  copy(form + ".L2::cache_hint", 0, 512, ", %d9") + wait(0),
              128);
  add_arrival(
      cases, "cp.async.bulk, four to one phase",
      expect(512) + copy(form, 0, 16) + copy(form, 16, 112) + copy(form, 128, 256) + copy(form, 384, 128) + wait(0),
      128);
  add_arrival(cases, "cp.async.bulk before its expect_tx", copy(form, 0, 256) + expect(256) + wait(0), 64);
  add_arrival(
      cases, "cp.async.bulk in two phases",
      expect(256) + copy(form, 0, 256) + wait(0) + "bar.sync 0;\n  " + expect(256) + copy(form, 256, 256) + wait(1),
      128);
  add_arrival(cases, "cp.async.bulk.prefetch.L2.global",
              "@%p0 cp.async.bulk.prefetch.L2.global [%in], 512;\n  " + expect(128) + copy(form, 0, 128) + wait(0), 32);
}

/// Copies from the tile to `place`, where each thread then reads its word.
void departures(Cases& cases) {
  const std::string fill =
      "mad.lo.u32 %r5, %t, 0x10001, 77; st.shared.u32 [%r2], %r5; mov.u64 %d0, place; mad.wide.u32 %d1, %t, 4, %d0; "
      "fence.proxy.async.shared::cta; bar.sync 0;\n  ";
  const auto add_departure = [&](const std::string& name, const std::string& copies) {
    add(cases, {.name = name,
                .declarations = kShared,
                .body = kStart + fill + copies + "\n  bar.sync 0; ld.global.u32 %z0, [%d1]; ld.shared.u32 %z1, [%r2];",
                .threads = 128,
                .results = 2,
                .model = [](unsigned thread, int) { return thread * 0x10001U + 77; }});
  };
  const std::string form = "cp.async.bulk.global.shared::cta.bulk_group";
  const std::string commit = " @%p0 cp.async.bulk.commit_group;";
  const std::string wait_all = " @%p0 cp.async.bulk.wait_group 0;";
  add_departure(form, fmt::format("@%p0 {} [%d0], [%r1], 512;", form) + commit + wait_all);
  add_departure(form + ".L2::cache_hint", "createpolicy.fractional.L2::evict_first.b64 %d9, 1.0; " +
                                              fmt::format("@%p0 {}.L2::cache_hint [%d0], [%r1], 512, %d9;", form) +
                                              commit + wait_all);
  add_departure("cp.async.bulk.wait_group of two groups",
                fmt::format("@%p0 {0} [%d0], [%r1], 256;{1} @%p0 {0} [%d0+256], [%r1+256], 256;{1}"
                            " @%p0 cp.async.bulk.wait_group 1;",
                            form, commit) +
                    wait_all);
  add_departure("cp.async.bulk.wait_group.read",
                fmt::format("@%p0 {} [%d0], [%r1], 512;", form) + commit +
                    " @%p0 cp.async.bulk.wait_group.read 0; @%p0 st.shared.u32 [%r2], 1; " + wait_all +
                    " @%p0 st.shared.u32 [%r2], 77;");
}

/// One operation on 32-bit words, or on both halves of 64-bit words. `before` is in the destination, `with` in the
/// tile.
struct Reduction {
  const char* operation;
  std::uint64_t before;
  std::uint64_t with;
  std::uint64_t after;
};

std::uint64_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<Reduction> reductions() {
  return {{"add.u32", 0xfffffff0, 0x23, 0x13},
          {"add.s32", 0xfffffff0, 0x23, 0x13},
          {"add.u64", 0xfffffff0ffffffff, 0x2300000002, 0x1400000001},
          {"min.u32", 0xfffffff0, 7, 7},
          {"min.s32", 0xfffffff0, 7, 0xfffffff0},
          {"min.u64", 0xfffffff000000000, 7, 7},
          {"min.s64", 0xfffffff000000000, 7, 0xfffffff000000000},
          {"max.u32", 0xfffffff0, 7, 0xfffffff0},
          {"max.s32", 0xfffffff0, 7, 7},
          {"max.u64", 0xfffffff000000000, 7, 0xfffffff000000000},
          {"max.s64", 0xfffffff000000000, 7, 7},
          {"inc.u32", 7, 7, 0},
          {"dec.u32", 0, 9, 9},
          {"and.b32", 0xff00ff00, 0x0ff00ff0, 0x0f000f00},
          {"or.b32", 0xff00ff00, 0x0ff00ff0, 0xfff0fff0},
          {"xor.b32", 0xff00ff00, 0x0ff00ff0, 0xf0f0f0f0},
          {"and.b64", 0xff00ff00ff00ff00, 0x0ff00ff00ff00ff0, 0x0f000f000f000f00},
          {"or.b64", 0xff00ff00ff00ff00, 0x0ff00ff00ff00ff0, 0xfff0fff0fff0fff0},
          {"xor.b64", 0xff00ff00ff00ff00, 0x0ff00ff00ff00ff0, 0xf0f0f0f0f0f0f0f0},
          {"add.f32", bits_of(1.5F), bits_of(2.25F), bits_of(3.75F)},
          {"add.f64", std::bit_cast<std::uint64_t>(1.5), std::bit_cast<std::uint64_t>(2.25),
           std::bit_cast<std::uint64_t>(3.75)},
          {"add.noftz.f16", 0x40003c00, 0x3c003c00, 0x42004000},
          {"add.noftz.bf16", 0x40003f80, 0x3f803f80, 0x40404000}};
}

void reduced(Cases& cases) {
  for (const Reduction& given : reductions()) {
    const bool wide = std::string_view(given.operation).ends_with("64");
    const auto word = [wide](std::uint64_t value, unsigned thread) {
      return static_cast<std::uint32_t>(wide && thread % 2 == 1 ? value >> 32 : value);
    };
    const auto store = [&](const char* target, std::uint64_t value) {
      return fmt::format("selp.u32 %r5, {}, {}, %p1; {}, %r5; ", word(value, 1), word(value, 0), target);
    };
    const std::string opcode = fmt::format("cp.reduce.async.bulk.global.shared::cta.bulk_group.{}", given.operation);
    // The reduction reads memory that threads have written, so fences of both spaces are needed.
    add(cases, {.name = opcode,
                .declarations = kShared,
                .body = kStart +
                        "and.b32 %r4, %t, 1; setp.ne.u32 %p1, %r4, 0; mov.u64 %d0, place; "
                        "mad.wide.u32 %d1, %t, 4, %d0; " +
                        store("st.shared.u32 [%r2]", given.with) + store("st.global.u32 [%d1]", given.before) +
                        fmt::format("fence.proxy.async; bar.sync 0;\n  @%p0 {} [%d0], [%r1], 256; "
                                    "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; bar.sync 0; "
                                    "ld.global.u32 %z0, [%d1];",
                                    opcode),
                .threads = 64,
                .model = [=](unsigned thread, int) { return word(given.after, thread); }});
  }
}

/// Block 1 of three sends to the blocks of a mask.
void multicast(Cases& cases) {
  const std::vector<std::uint32_t> input = numbered(32);
  const std::string opcode = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
  const auto is_member = [](unsigned block) { return block != 1; };
  add(cases,
      {.name = opcode,
       .declarations = kShared,
       .body = kStart + "st.shared.u32 [%r2], 0x55555555; fence.proxy.async.shared::cta; " + expect(128) +
               kClusterSync +
               fmt::format("mov.u32 %r4, %cluster_ctarank; setp.eq.and.u32 %p2, %r4, 1, %p0; mov.u16 %s0, 5;\n"
                           "  @%p2 {} [%r1], [%in], 128, [%r8], %s0; setp.eq.u32 %p3, %r4, 1; @%p3 bra over;\n  ",
                           opcode) +
               wait(0) + "over: ld.shared.u32 %z0, [%r2];\n  " + kClusterSync,
       .directives = "\n.reqnctapercluster 3, 1, 1",
       .blocks = 3,
       .input = input,
       .model = [=](unsigned thread, int) { return is_member(thread / 32) ? input[thread % 32] : 0x55555555U; }});
}

}  // namespace

void add_bulk(Cases& cases) {
  bulk_arrivals(cases);
  departures(cases);
  reduced(cases);
  multicast(cases);
}

}  // namespace cubit::conformance
