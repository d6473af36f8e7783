// Cases of mbarriers: counts, phases, tokens, bytes. PTX ISA, "mbarrier" and "cp.async.mbarrier.arrive".
#include <fmt/format.h>

#include "tests/conformance/scenario.hpp"

namespace cubit::conformance {
namespace {

const char* const kBarriers =
    ".shared .align 8 .b64 bar;\n.shared .align 8 .b64 other;\n.shared .align 4 .u32 value;\n"
    ".shared .align 16 .b8 tile[512];";

/// Shifts into %z0 whether the phase of `parity` has ended.
std::string ask(int parity) {
  return fmt::format(
      "mbarrier.test_wait.parity.shared.b64 %p0, [bar], {}; selp.u32 %r9, 1, 0, %p0; shl.b32 %z0, %z0, 1; "
      "or.b32 %z0, %z0, %r9;\n  ",
      parity);
}
/// Shifts into %z0 whether the phase of the token in %d<index> has ended.
std::string ask_token(int index) {
  return fmt::format(
      "mbarrier.test_wait.shared.b64 %p0, [bar], %d{}; selp.u32 %r9, 1, 0, %p0; shl.b32 %z0, %z0, 1; "
      "or.b32 %z0, %z0, %r9;\n  ",
      index);
}
std::string init(unsigned count) { return fmt::format("mbarrier.init.shared.b64 [bar], {};\n  ", count); }

/// A case with one thread.
void alone(Cases& cases, const std::string& name, const std::string& body, std::vector<std::uint32_t> expected) {
  const auto results = static_cast<int>(expected.size());
  add(cases, {.name = name,
              .declarations = kBarriers,
              .body = "mov.u32 %z0, 0; mov.u32 %r8, bar;\n  " + body,
              .threads = 1,
              .results = results,
              .model = always(std::move(expected))});
}

/// Three arrivals in any form end a phase of three, and fewer do not.
void arrivals(Cases& cases) {
  struct Form {
    const char* name;
    const char* text;
  };
  for (const Form& form : {
           Form{"mbarrier.arrive.shared.b64",
                "mbarrier.arrive.shared.b64 %d0, [bar]; "
                "mbarrier.arrive.shared.b64 %d0, [bar]; @@"
                "mbarrier.arrive.shared.b64 %d0, [bar];"},
           Form{"mbarrier.arrive.shared.b64 of a count",
                "mbarrier.arrive.shared.b64 %d0, [bar], 2; @@mbarrier.arrive.shared.b64 %d0, [bar], 1;"},
           Form{"mbarrier.arrive.shared::cta.b64 to _",
                "mbarrier.arrive.shared::cta.b64 _, [bar], 2; @@mbarrier.arrive.shared::cta.b64 _, [bar];"},
           Form{"mbarrier.arrive.b64 of a generic address",
                "cvt.u64.u32 %d1, %r8; cvta.shared.u64 %d1, %d1; mbarrier.arrive.b64 %d0, [%d1], 2; "
                "@@mbarrier.arrive.b64 %d0, [%d1];"},
           Form{"mbarrier.arrive.release.cta",
                "mbarrier.arrive.release.cta.shared::cta.b64 %d0, [bar], 2; "
                "@@mbarrier.arrive.release.cta.shared::cta.b64 %d0, [bar];"},
           Form{"mbarrier.arrive.release.cluster",
                "mbarrier.arrive.release.cluster.shared::cta.b64 %d0, [bar], 2; "
                "@@mbarrier.arrive.release.cluster.shared::cta.b64 %d0, [bar];"},
           Form{"mbarrier.arrive.noComplete",
                "mbarrier.arrive.noComplete.shared.b64 %d0, [bar], 2; "
                "@@mbarrier.arrive.shared.b64 %d0, [bar];"},
           Form{"mbarrier.arrive.noComplete.release.cta",
                "mbarrier.arrive.noComplete.release.cta.shared.b64 %d0, [bar], 2; "
                "@@mbarrier.arrive.shared.b64 %d0, [bar];"},
           Form{"mbarrier.arrive.expect_tx",
                "mbarrier.arrive.expect_tx.shared.b64 %d0, [bar], 64; mbarrier.arrive.shared.b64 %d0, [bar], 2; "
                "@@mbarrier.complete_tx.shared.b64 [bar], 64;"},
           Form{"mbarrier.arrive.expect_tx.release.cta",
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %d0, [bar], 64; "
                "mbarrier.arrive.shared.b64 %d0, [bar], 2; @@mbarrier.complete_tx.shared.b64 [bar], 64;"},
           Form{"mbarrier.expect_tx, mbarrier.complete_tx",
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16; mbarrier.arrive.shared.b64 _, [bar], 3; "
                "@@mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;"},
       }) {
    std::string text = form.text;
    text.replace(text.find("@@"), 2, ask(0));
    // Before the last arrival, the phase has not ended. After it, phase 0 has ended and phase 1 has not.
    alone(cases, form.name, init(3) + ask(0) + text + "\n  " + ask(0) + ask(1), {0b0010});
  }
}

void phases(Cases& cases) {
  const std::string arrive = "mbarrier.arrive.shared.b64 %d0, [bar];\n  ";
  alone(cases, "mbarrier.test_wait.parity before the first phase", init(2) + ask(0) + ask(1), {0b01});
  std::string flips = init(1);
  for (int i = 0; i < 8; ++i) flips += ask(0) + ask(1) + arrive;
  alone(cases, "mbarrier of eight phases", flips, {0x6666});
  alone(cases, "mbarrier.inval, init again",
        init(1) + arrive + ask(0) + "mbarrier.inval.shared.b64 [bar];\n  " + init(2) + ask(0) + arrive + ask(0) +
            arrive + ask(0),
        {0b1001});
  alone(cases, "mbarrier of the most arrivals",
        init(1048575) + "mbarrier.arrive.shared.b64 %d0, [bar], 1048574;\n  " + ask(0) + arrive + ask(0), {0b01});
  alone(cases, "mbarrier.arrive_drop",
        init(3) + "mbarrier.arrive_drop.shared.b64 _, [bar];\n  " + ask(0) + arrive + ask(0) + arrive + ask(0) +
            arrive + ask(1) + arrive + ask(1),
        {0b00101});
  alone(cases, "mbarrier.arrive_drop of a count",
        init(5) + "mbarrier.arrive_drop.release.cta.shared::cta.b64 %d1, [bar], 3;\n  " + ask(0) +
            "mbarrier.arrive.shared.b64 %d0, [bar], 2;\n  " + ask(0) + "mbarrier.arrive.shared.b64 %d0, [bar], 2;\n  " +
            ask(1),
        {0b011});
  alone(cases, "mbarrier.arrive_drop.expect_tx",
        init(2) + "mbarrier.arrive_drop.expect_tx.shared.b64 _, [bar], 32;\n  " + arrive + ask(0) +
            "mbarrier.complete_tx.shared.b64 [bar], 32;\n  " + ask(0) + arrive + ask(1),
        {0b011});
  alone(cases, "mbarrier.complete_tx before expect_tx",
        init(2) + arrive + "mbarrier.complete_tx.shared.b64 [bar], 48;\n  " + ask(0) +
            "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 48;\n  " + ask(0),
        {0b01});
  alone(cases, "mbarrier.complete_tx in parts",
        init(1) + "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 48;\n  " + ask(0) +
            "mbarrier.complete_tx.shared.b64 [bar], 32;\n  " + ask(0) +
            "mbarrier.complete_tx.shared.b64 [bar], 16;\n  " + ask(0),
        {0b001});
}

/// A state is opaque, except for its phase and, after an arrival with .noComplete, the number of arrivals that were
/// missing before.
void states(Cases& cases) {
  alone(cases, "mbarrier.test_wait of a state",
        init(2) + "mbarrier.arrive.shared.b64 %d0, [bar];\n  " + ask_token(0) +
            "mbarrier.arrive.shared.b64 %d1, [bar];\n  " + ask_token(0) + ask_token(1) +
            "mbarrier.arrive.shared.b64 %d2, [bar];\n  " + ask_token(2) + ask_token(0),
        {0b01101});
  alone(cases, "mbarrier.pending_count",
        init(5) +
            "mbarrier.arrive.noComplete.shared.b64 %d0, [bar], 2; mbarrier.arrive.noComplete.shared.b64 %d1, [bar], 1; "
            "mbarrier.arrive_drop.noComplete.shared.b64 %d2, [bar], 1; mbarrier.arrive.shared.b64 _, [bar]; "
            "mbarrier.arrive.noComplete.shared.b64 %d3, [bar], 3;\n  "
            "mbarrier.pending_count.b64 %z1, %d0; mbarrier.pending_count.b64 %z2, %d1; "
            "mbarrier.pending_count.b64 %z3, %d2; mbarrier.pending_count.b64 %z4, %d3;\n  " +
            ask(0) + ask(1),
        {0b10, 5, 3, 2, 4});
}

void waits(Cases& cases) {
  const std::string hint = "mbarrier.try_wait.parity.shared.b64 %p0, [bar], {}{}; selp.u32 %z{}, 1, 0, %p0; ";
  alone(cases, "mbarrier.try_wait",
        init(1) + fmt::format(fmt::runtime(hint), 0, ", 1000", 0) + fmt::format(fmt::runtime(hint), 1, "", 1) +
            "mbarrier.arrive.shared.b64 %d0, [bar]; mbarrier.try_wait.shared.b64 %p0, [bar], %d0; "
            "selp.u32 %z2, 1, 0, %p0; mbarrier.try_wait.acquire.cluster.shared::cta.b64 %p0, [bar], %d0, 1000; "
            "selp.u32 %z3, 1, 0, %p0; " +
            fmt::format(fmt::runtime(hint), 1, ", 1000", 4),
        {0, 1, 1, 1, 0});
}

/// A buffer of one word between two warps: eight phases of each of two mbarriers.
std::string pipeline(const std::string& wait) {
  return fmt::format(R"(setp.ne.u32 %p0, %t, 0; @%p0 bra ready;
    mbarrier.init.shared.b64 [bar], 32; mbarrier.init.shared.b64 [other], 32;
  ready:
    bar.sync 0; mov.u32 %r2, 0; mov.u32 %z0, 0;
    setp.ge.u32 %p0, %t, 32; @%p0 bra producer;
  consumer:
    and.b32 %r3, %r2, 1;
    {}
    ld.shared.u32 %r4, [value]; mad.lo.u32 %z0, %z0, 3, %r4;
    mbarrier.arrive.shared.b64 _, [other];
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 8; @%p1 bra consumer;
    bra.uni end;
  producer:
    and.b32 %r3, %r2, 1; xor.b32 %r3, %r3, 1;
    {}
    setp.eq.u32 %p2, %t, 32;
    @%p2 st.shared.u32 [value], %r2;
    mbarrier.arrive.shared.b64 _, [bar];
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 8; @%p1 bra producer;
  end:)",
                     wait_for_phase(wait, "bar", "%r3"), wait_for_phase(wait, "other", "%r3"));
}

void between_warps(Cases& cases) {
  for (const char* wait : {"mbarrier.try_wait.parity.shared.b64", "mbarrier.test_wait.parity.shared.b64",
                           "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64",
                           "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64"}) {
    add(cases, {.name = fmt::format("{} between warps", wait),
                .declarations = kBarriers,
                .body = pipeline(wait),
                .threads = 64,
                .model = [](unsigned thread, int) {
                  std::uint32_t sum = 0;
                  for (std::uint32_t i = 0; i < 8 && thread < 32; ++i) sum = sum * 3 + i;
                  return sum;
                }});
  }
}

/// Without .noinc the arrivals of the copies are added to the phase, which waits for one more arrival.
void copies(Cases& cases) {
  std::vector<std::uint32_t> words(64);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(0x1001 * i + 7);
  for (const bool noinc : {false, true}) {
    const std::string opcode = fmt::format("cp.async.mbarrier.arrive{}.shared.b64", noinc ? ".noinc" : "");
    add(cases, {.name = opcode,
                .declarations = kBarriers,
                .body = fmt::format(R"(setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], {};
    bar.sync 0; mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; mad.wide.u32 %in, %t, 4, %in;
    cp.async.ca.shared.global [%r1], [%in], 4; {} [bar];
    {}
    {}
    xor.b32 %r2, %r2, 252; mov.u32 %r1, tile; add.u32 %r1, %r1, %r2; ld.shared.u32 %z0, [%r1];)",
                                    noinc ? 64 : 1, opcode, noinc ? "" : "@%p0 mbarrier.arrive.shared.b64 _, [bar];",
                                    wait_for_phase("mbarrier.try_wait.parity.shared.b64", "bar", "0")),
                .threads = 64,
                .input = words,
                .model = [words](unsigned thread, int) { return words[63 - thread]; }});
  }
}

}  // namespace

void add_mbarrier(Cases& cases) {
  arrivals(cases);
  phases(cases);
  states(cases);
  waits(cases);
  between_warps(cases);
  copies(cases);
}

}  // namespace cubit::conformance
