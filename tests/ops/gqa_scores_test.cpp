// gqa_decode's score modifications, windows and sinks: descriptor texts, refusals, launch parameters, the reference,
// and users' code by name and hash. No kernel runs here; tests/cover checks what kernels compute.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "check/gqa_decode/problem.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/user_code.hpp"
#include "runtime/cache/key.hpp"
#include "tests/support/gqa_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

constexpr const char* kCode =
    "__device__ float modify_score(float s, const cubit::ScorePlace&, const void*) { return s; }";

TEST(GqaScoreFields, RoundTripInOrder) {
  const std::string text =
      "gqa_decode:heads_per_kv=8,cache=paged,soft_cap=true,alibi=true,score=tanh@0123456789abcdef,window=true,sinks="
      "true,"
      "alignment=8,family=sm80";
  const GqaDecode descriptor = gqa_decode::parse(text);
  EXPECT_TRUE(descriptor.soft_cap && descriptor.alibi && descriptor.window && descriptor.sinks);
  EXPECT_EQ(descriptor.score, "tanh@0123456789abcdef");
  EXPECT_EQ(descriptor.text(), text);
  EXPECT_EQ(gqa_decode::parse("gqa_decode:sinks=false,score=none,soft_cap=false,window=false,alibi=false").text(),
            "gqa_decode");
}

TEST(GqaScoreFields, RefuseWhatIsNoNameAndHash) {
  for (const char* value : {"tanh", "tanh@", "@0123456789abcdef", "tanh@0123456789ABCDEF", "tanh@0123456789abcde",
                            "tanh@0123456789abcdef0", "1@0123456789abcdef", "a-b@0123456789abcdef", "None"}) {
    const std::string text = std::string("gqa_decode:score=") + value;
    expect_refused([&] { gqa_decode::parse(text); },
                   "descriptor \"" + text + "\": " + value + " is not a value of score; accepted: none, name@hash");
  }
  GqaDecode descriptor;
  descriptor.score = "tanh";
  EXPECT_THROW(gqa_decode::validate(descriptor), Failure);
  expect_refused([] { gqa_decode::parse("gqa_decode:window=1"); },
                 "descriptor \"gqa_decode:window=1\": 1 is not a value of window; accepted: false, true");
}

TEST(GqaScoreFields, FamilySm90TakesThemAllByName) {
  for (const char* field : {"sinks=true", "soft_cap=true", "alibi=true", "window=true"}) {
    const auto kernel = tests::gqa_kernel_of(std::string("gqa_decode:family=sm90,") + field, "sm_90a");
    EXPECT_EQ(kernel->report().family, "sm90_gqa_decode") << field;
  }
}

TEST(UserCode, IsFoundByNameAndHashOfItsText) {
  const std::string field = add_user_code("mine", kCode, "modify_score");
  EXPECT_TRUE(is_user_code_name(field));
  EXPECT_EQ(field, add_user_code("mine", kCode, "modify_score")) << "added again";
  EXPECT_EQ(find_user_code(field).name, "user/mine.cuh");
  EXPECT_EQ(find_user_code(field).text, kCode);
  const std::string other = add_user_code("mine", std::string(kCode) + "\n", "modify_score");
  EXPECT_NE(other, field);
  EXPECT_EQ(find_user_code(field).text, kCode) << "the text of a name and hash never changes";
}

TEST(UserCode, RefusesWhatCannotBeCode) {
  const auto refused = [](std::string_view name, std::string_view text, const std::string& sentence) {
    expect_refused([&] { add_user_code(name, text, "modify_score"); }, sentence);
  };
  refused("", kCode,
          "the name \"\": user code is named by an identifier; accepted: up to 64 letters, digits and underscores, not "
          "a digit first");
  refused("../x", kCode,
          "the name \"../x\": user code is named by an identifier; accepted: up to 64 letters, digits and underscores, "
          "not a digit first");
  EXPECT_THROW(add_user_code(std::string(65, 'a'), kCode, "modify_score"), Failure);
  EXPECT_NO_THROW(add_user_code(std::string(64, 'a'), kCode, "modify_score"));
  refused("x", "",
          "the code of x: it does not define modify_score; accepted: code with a function modify_score, as "
          "templates/attention/score_user.cuh declares it");
  refused("x", std::string(65537, ' '), "the code of x: it has 65537 bytes; accepted: up to 65536");
  expect_refused([] { find_user_code("x@0123456789abcdef"); },
                 "score=x@0123456789abcdef: no code of this name and hash was added to this process; add its text with "
                 "cubit_add_score, or cubit … --score name=file");
}

TEST(UserCode, IsPartOfTheKey) {
  const auto key_of = [](const std::string& text) {
    const std::string score = add_user_code("key", text, "modify_score");
    return runtime::request_key(tests::gqa_kernel_of("gqa_decode:score=" + score, "sm_80")->source()).hex();
  };
  const std::string code = kCode;
  EXPECT_EQ(key_of(code), key_of(code));
  EXPECT_NE(key_of(code), key_of(code + " "));
}

TEST(UserCode, MayIncludeCubitsHeadersOnly) {
  const std::string score = add_user_code("with", std::string("#include <math.h>\n") + kCode, "modify_score");
  EXPECT_THROW(tests::gqa_kernel_of("gqa_decode:score=" + score, "sm_80"), Failure);
}

/// Arguments with one KV head and two query heads of 128 channels, at made-up addresses.
cubit_gqa_decode_arguments made_up_arguments() {
  return tests::made_up_gqa_arguments({.query_heads = 2, .max_length = 4096});
}

/// The launch on a device with room for a block per chunk.
Launch encode(const std::string& fields, const cubit_gqa_decode_arguments& arguments) {
  return tests::encode_gqa("gqa_decode:heads_per_kv=2" + fields, arguments, 1000);
}

TEST(GqaScoreLaunch, TakesWhatTheDescriptorAsksForAndOnlyThat) {
  const auto refused = [](const std::string& fields, auto change, const std::string& sentence) {
    cubit_gqa_decode_arguments arguments = made_up_arguments();
    change(arguments);
    expect_refused([&] { encode(fields, arguments); }, sentence);
  };
  const auto nothing = [](auto&) {};
  const std::string cap =
      ": a cap is a positive number whose inverse is a float too; accepted: 1e-30 to 1e30, usually 20 to 50";
  refused(",soft_cap=true", nothing, "soft_cap = 0" + cap);
  refused(
      ",soft_cap=true", [](auto& a) { a.soft_cap = -30; }, "soft_cap = -30" + cap);
  refused(
      ",soft_cap=true", [](auto& a) { a.soft_cap = std::nanf(""); }, "soft_cap = nan" + cap);
  refused(
      ",soft_cap=true", [](auto& a) { a.soft_cap = std::numeric_limits<float>::infinity(); }, "soft_cap = inf" + cap);
  refused(",alibi=true", nothing, "alibi_slopes = NULL: the tensor is needed");
  refused(",sinks=true", nothing, "sinks = NULL: the tensor is needed");
  refused(",window=true", nothing, "window = 0: it must be at least 1");
  refused(
      ",window=true", [](auto& a) { a.window = -5; }, "window = -5: it must be at least 1");
  refused(
      ",window=true", [](auto& a) { a.window = 5, a.kept_tokens = -1; }, "kept_tokens = -1: it must not be negative");
  refused(
      "", [](auto& a) { a.window = 5; }, "window = 5: it must be 0, for the descriptor does not have window=true");
  refused(
      "", [](auto& a) { a.kept_tokens = 5; },
      "kept_tokens = 5: it must be 0, for the descriptor does not have window=true");
  const auto unasked = [](const std::string& given, const char* none, const std::string& field) {
    return given + ": the descriptor does not have " + field + "; give " + none + ", or ask for " + field +
           " in the descriptor";
  };
  refused(
      "", [](auto& a) { a.soft_cap = 5; }, unasked("soft_cap = 5", "0", "soft_cap=true"));
  refused(
      "", [](auto& a) { a.alibi_slopes = address<float>(0x7000); },
      unasked("alibi_slopes at 0x7000", "NULL", "alibi=true"));
  refused(
      "", [](auto& a) { a.sinks = address<float>(0x7100); }, unasked("sinks at 0x7100", "NULL", "sinks=true"));
  refused(
      "", [](auto& a) { a.score_parameters = address(0x7200); },
      unasked("score_parameters at 0x7200", "NULL", "score=…"));
  cubit_gqa_decode_arguments arguments = made_up_arguments();
  arguments.soft_cap = 30;
  arguments.window = std::numeric_limits<int>::max();
  arguments.kept_tokens = std::numeric_limits<int>::max();
  const auto given = tests::parameters_of<GqaDecodeArguments>(encode(",soft_cap=true,window=true", arguments));
  EXPECT_FLOAT_EQ(given.soft_cap_log2, 30 * 1.44269504f);
  EXPECT_FLOAT_EQ(given.soft_cap_inverse * given.soft_cap_log2, 1);
  EXPECT_EQ(given.window, 4096) << "all there are";
  EXPECT_EQ(given.kept_tokens, 4096);
}

/// One sequence in chunks of 64 tokens, on a device with room for a block per chunk.
TEST(GqaScoreLaunch, SplitsWhatTheWindowHas) {
  cubit_gqa_decode_arguments arguments = made_up_arguments();
  const unsigned all = encode("", arguments).shape.grid[0];
  arguments.window = 128;
  const unsigned few = encode(",window=true", arguments).shape.grid[0];
  EXPECT_LT(few, all);
  EXPECT_LE(few, 3u);
  arguments.window = 4096;
  EXPECT_EQ(encode(",window=true", arguments).shape.grid[0], all);
}

TEST(GqaScoreReference, SeenTokens) {
  EXPECT_EQ(check::gqa_decode::attended_tokens(100, 0, 0), 100);
  EXPECT_EQ(check::gqa_decode::attended_tokens(100, 10, 0), 10);
  EXPECT_EQ(check::gqa_decode::attended_tokens(100, 10, 5), 15);
  EXPECT_EQ(check::gqa_decode::attended_tokens(12, 10, 5), 12);
  EXPECT_EQ(check::gqa_decode::attended_tokens(0, 10, 5), 0);
  EXPECT_EQ(check::gqa_decode::attended_tokens(7, std::int64_t{1} << 40, std::int64_t{1} << 40), 7);
}

/// A case in which only two channels matter: channel 0 determines scores, channel 1 determines values.
struct Small {
  std::vector<double> scores;
  std::vector<double> values;

  check::gqa_decode::ReferenceHead head(const check::gqa_decode::ScoreRules& rules) const {
    GqaDecode descriptor;
    descriptor.head_dim = 64;
    descriptor.kv = KvFormat::fp16;
    const auto rows = [](const std::vector<double>& first) {
      std::vector<std::uint16_t> all(64 * first.size(), 0);
      for (std::size_t i = 0; i < first.size(); ++i)
        all[64 * i] = from_float(Element::fp16, static_cast<float>(first[i]));
      return all;
    };
    const auto keys = rows(scores);
    const auto contents = rows(values);
    const auto of = [](const std::vector<std::uint16_t>& all) {
      return check::gqa_decode::HeadRows{
          [&all](int token) { return reinterpret_cast<const char*>(all.data() + 64 * token); }};
    };
    std::vector<double> query(64, 0.0);
    query[0] = 1;
    return check::gqa_decode::reference_head(descriptor, query.data(), of(keys), of(contents),
                                             static_cast<int>(scores.size()), 1.0, rules);
  }
};

TEST(GqaScoreReference, MeansWhatTheHeaderSays) {
  const Small small{{1, 2, -1, 0.5}, {8, 16, 32, 64}};
  const auto expect = [&](const check::gqa_decode::ScoreRules& rules, const std::vector<double>& scores, double sink) {
    double sum = std::exp(sink);
    double weighted = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sum += std::exp(scores[i]);
      weighted += std::exp(scores[i]) * small.values[i];
    }
    const auto head = small.head(rules);
    EXPECT_NEAR(head.output[0], weighted / sum, 1e-12);
    EXPECT_NEAR(head.lse, std::log(sum), 1e-12);
  };
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  expect({}, {1, 2, -1, 0.5}, kNone);
  expect({.soft_cap = 1.5},
         {1.5 * std::tanh(1 / 1.5), 1.5 * std::tanh(2 / 1.5), 1.5 * std::tanh(-1 / 1.5), 1.5 * std::tanh(0.5 / 1.5)},
         kNone);
  expect({.alibi_slope = 0.25}, {0.25, 1.5, -1.25, 0.5}, kNone);
  expect({.window = 2}, {kNone, kNone, -1, 0.5}, kNone);
  expect({.window = 1, .kept_tokens = 2}, {1, 2, kNone, 0.5}, kNone);
  expect({.sink = 0.75}, {1, 2, -1, 0.5}, 0.75);
  expect({.soft_cap = 1.5, .alibi_slope = 1, .window = 1, .sink = -2},
         {kNone, kNone, kNone, 1.5 * std::tanh(0.5 / 1.5)}, -2);
  const auto empty = Small{}.head({.sink = 3});
  EXPECT_EQ(empty.lse, 3);
  EXPECT_EQ(empty.output[0], 0);
}

/// A problem with two query heads over four tokens.
struct ProblemCase {
  std::vector<std::uint16_t> query = std::vector<std::uint16_t>(128, 0);
  std::vector<std::uint16_t> cache = std::vector<std::uint16_t>(4 * 64, 0);
  std::vector<float> slopes = {0.5f, 0.25f};
  std::vector<float> sinks = {1, -std::numeric_limits<float>::infinity()};
  std::vector<check::Tensor> tensors = {{"query", "BF16", {1, 2, 64}, {}, query.data()},
                                        {"key", "BF16", {1, 4, 1, 64}, {}, cache.data()},
                                        {"value", "BF16", {1, 4, 1, 64}, {}, cache.data()},
                                        {"alibi_slopes", "F32", {2}, {}, slopes.data()},
                                        {"sinks", "F32", {2}, {}, sinks.data()}};
  std::string text = "gqa_decode:head_dim=64,heads_per_kv=2,alibi=true,sinks=true,window=true,soft_cap=true";
  Numbers numbers = {{"window", 2}, {"soft_cap", 10}};
  std::unique_ptr<check::Problem> problem() const { return check::find_problems(text).problem(text, tensors, numbers); }
};

TEST(GqaScoreProblem, CountsWhatIsSeen) {
  EXPECT_EQ(ProblemCase().problem()->bytes_read(), 2u * 2 * 128 + 256 + 8 + 8);
  EXPECT_EQ(ProblemCase().problem()->operations(), 4.0 * 2 * 2 * 64);
}

TEST(GqaScoreProblem, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& sentence, auto change) {
    ProblemCase one;
    change(one);
    tests::expect_refused_with([&] { one.problem(); }, sentence);
  };
  using C = ProblemCase;
  refused("tensor alibi_slopes [1]: there are 2 query heads; accepted: [2]", [](C& c) { c.tensors[3].shape = {1}; });
  refused("tensor alibi_slopes [1, 2]: it must have the dimensions [query heads]", [](C& c) {
    c.tensors[3].shape = {1, 2};
  });
  refused("tensor sinks of type F16", [](C& c) { c.tensors[4].type = "F16"; });
  refused("tensors without sinks: the descriptor has sinks=true; give sinks [query heads] F32",
          [](C& c) { c.tensors.pop_back(); });
  refused("alibi_slopes[1] = inf: it is not a finite number; accepted: -1e+28 to 1e+28",
          [](C& c) { c.slopes[1] = std::numeric_limits<float>::infinity(); });
  refused("sinks[0] = nan: it is not a finite number; accepted: -1e+38 to 1e+38, and -inf for no sink",
          [](C& c) { c.sinks[0] = std::nanf(""); });
  refused("alibi_slopes[0] = -3e+38: its magnitude is beyond 1e+28", [](C& c) { c.slopes[0] = -3e38f; });
  refused("sinks[1] = 3e+38: its magnitude is beyond 1e+38", [](C& c) { c.sinks[1] = 3e38f; });
  refused("soft_cap = nan", [](C& c) { c.numbers["soft_cap"] = std::nan(""); });
  refused("soft_cap = -1", [](C& c) { c.numbers["soft_cap"] = -1; });
  refused("soft_cap = 0", [](C& c) { c.numbers.erase("soft_cap"); });
  refused("window = 0: a query attends to at least its own position; accepted: 1 and more",
          [](C& c) { c.numbers.erase("window"); });
  refused("window = -2: a query attends to at least its own position; accepted: 1 and more",
          [](C& c) { c.numbers["window"] = -2; });
  refused("window = 1.5: it is not a number that is accepted; accepted: whole numbers from 1 to 2147483647",
          [](C& c) { c.numbers["window"] = 1.5; });
  refused("window = 2147483648: it is not a number that is accepted; accepted: whole numbers from 1 to 2147483647",
          [](C& c) { c.numbers["window"] = 0x1p31; });
  refused("kept_tokens = -1: it is not a number that is accepted; accepted: whole numbers from 0 to 2147483647",
          [](C& c) { c.numbers["kept_tokens"] = -1; });
  refused("kept_tokens = 1e+300: it is not a number that is accepted; accepted: whole numbers from 0 to 2147483647",
          [](C& c) { c.numbers["kept_tokens"] = 1e300; });
  refused(
      "tensor sinks: gqa_decode:head_dim=64,heads_per_kv=2,alibi=true does not have sinks=true; leave it out, or ask "
      "for sinks=true",
      [](C& c) {
        c.text = "gqa_decode:head_dim=64,heads_per_kv=2,alibi=true";
        c.numbers.clear();
      });
  refused(
      "number window: gqa_decode:head_dim=64,heads_per_kv=2,alibi=true,sinks=true has no such launch argument; "
      "accepted: softmax_scale, lse, splits",
      [](C& c) {
        c.text = "gqa_decode:head_dim=64,heads_per_kv=2,alibi=true,sinks=true";
        c.numbers.erase("soft_cap");
      });
}

/// The case above in a cache of 2 pages with 2 tokens each.
struct PagedProblemCase : ProblemCase {
  std::vector<std::int32_t> table = {0, 1};
  PagedProblemCase() {
    for (const int i : {1, 2}) tensors[i].shape = {2, 2, 1, 64};
    tensors.push_back({"page_table", "I32", {1, 2}, {}, table.data()});
    text += ",cache=paged";
  }
};

TEST(GqaScoreProblem, NeedsThePagesThatAreSeen) {
  PagedProblemCase one;
  one.table[0] = -1;
  EXPECT_EQ(tests::refusal_of([&] { one.problem(); }), "accepted") << "the window has two tokens";
  one.numbers["window"] = 3;
  tests::expect_refused_with([&] { one.problem(); }, "page_table[0, 0] = -1: the sequence has 4 tokens");
}

/// Sixteen query tokens of a sequence of four tokens. The first query tokens have negative positions, and their windows
/// end before the sequence begins.
TEST(GqaScoreProblem, NeedsThePagesOfTheWidestWindows) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  for (const double window : {1.0, 100.0, kMost - 12, kMost - 11, kMost - 1, kMost}) {
    PagedProblemCase one;
    one.text += ",query_tokens=16";
    one.query.resize(std::size_t{16} * 128);
    one.tensors[0].shape = {1, 16, 2, 64};
    one.tensors[0].data = one.query.data();
    one.numbers["window"] = window;
    EXPECT_EQ(tests::refusal_of([&] { one.problem(); }), "accepted");
    one.table[1] = -1;
    tests::expect_refused_with([&] { one.problem(); }, "page_table[0, 1] = -1: the sequence has 4 tokens");
  }
}

TEST(GqaScoreProblem, HasNoReferenceOfUsersCode) {
  ProblemCase one;
  one.text += ",score=mine@0123456789abcdef";
  const auto problem = one.problem();
  const std::vector<std::uint16_t> output(128, 0);
  const void* got[] = {output.data()};
  try {
    problem->compare(got);
    ADD_FAILURE() << "compared";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
  }
}

}  // namespace
}  // namespace cubit::ops
