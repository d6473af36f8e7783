// The descriptor: which values each field takes, and the rules between fields.
#include <fmt/format.h>

#include <numeric>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/user_code.hpp"

namespace cubit::ops::gqa_decode {
namespace {

std::vector<int> one_to(int last) {
  std::vector<int> values(last);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

/// Parsing does not ask whether the code is there: a text may be read without the code.
Field<GqaDecode> score_field() {
  return {{"score", "none, name@hash", "none", "a user's score modification, as cubit_add_score names it"},
          [](GqaDecode& descriptor, std::string_view text) {
            descriptor.score = text == "none" ? "" : text;
            return descriptor.score.empty() || is_user_code_name(text);
          }};
}

std::vector<Field<GqaDecode>> make_fields() {
  const std::vector<std::pair<std::string_view, Element>> elements = {{"bf16", Element::bf16}, {"fp16", Element::fp16}};
  std::vector<Field<GqaDecode>> table = {
      number_field<GqaDecode>({"head_dim", kv_cache::kHeadDims, "128", "channels per head"}, &GqaDecode::head_dim,
                              kv_cache::head_dims()),
      number_field<GqaDecode>({"heads_per_kv", "1 to 64", "1", "query heads that share one KV head"},
                              &GqaDecode::heads_per_kv, one_to(64)),
  };
  append(table, kv_cache::format_fields<GqaDecode>());
  append(
      table,
      {
          word_field<GqaDecode, Element>({"query", "bf16, fp16", "bf16", "type of the query"}, &GqaDecode::query,
                                         elements),
          word_field<GqaDecode, Element>({"output", "bf16, fp16", "the query's type", "type of the output"},
                                         &GqaDecode::output, elements)
              .with_default([](GqaDecode& descriptor) { descriptor.output = descriptor.query; }),
          kv_cache::addressing_field<GqaDecode>(),
          number_field<GqaDecode>({"query_tokens", "1 to 16", "1", "last tokens of every sequence that are queries"},
                                  &GqaDecode::query_tokens, one_to(kMostQueryTokens)),
          word_field<GqaDecode, QueryMask>(
              {"mask", "causal, tree", "causal", "what several query tokens see of one another"}, &GqaDecode::mask,
              {{"causal", QueryMask::causal}, {"tree", QueryMask::tree}}),
          flag_field<GqaDecode>("soft_cap", "scores s become cap * tanh(s / cap)", &GqaDecode::soft_cap),
          flag_field<GqaDecode>("alibi", "scores get slope of the head * (position - query position)",
                                &GqaDecode::alibi),
          score_field(),
          flag_field<GqaDecode>("window", "a query sees the last few tokens and the kept tokens", &GqaDecode::window),
          flag_field<GqaDecode>("sinks", "a number per head joins the softmax's denominator", &GqaDecode::sinks),
          number_field<GqaDecode>({"alignment", "16, 8, 4", "what an unpadded row allows",
                                   "bytes that every pointer and stride is a multiple of; unpadded int4_rows allow 4 "
                                   "with one group and 8 with two groups, and every other row allows 16"},
                                  &GqaDecode::alignment, {16, 8, 4})
              .with_default([](GqaDecode& descriptor) { descriptor.alignment = descriptor.unpadded_alignment(); }),
          family_field<GqaDecode>(families()),
      });
  return table;
}

[[noreturn]] void reject(const GqaDecode& descriptor, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", descriptor.text()), std::move(rule),
                std::move(remedy));
}

}  // namespace

const std::vector<Field<GqaDecode>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

GqaDecode parse(std::string_view text) {
  GqaDecode descriptor = parse_fields(text, fields());
  if (gives_field(text, "mask") && descriptor.query_tokens == 1) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  "the field mask applies to several query tokens only",
                  "leave mask out or ask for query_tokens=2 to 16");
  }
  kv_cache::settle_formats(descriptor, text);
  validate(descriptor);
  return descriptor;
}

void validate(const GqaDecode& descriptor) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  kv_cache::validate_formats(formats, descriptor.text());
  if (!descriptor.score.empty() && !is_user_code_name(descriptor.score)) {
    reject(descriptor, fmt::format("score={} does not name a score modification", descriptor.score),
           "accepted: name@hash, as cubit_add_score gives it");
  }
  for (const std::size_t which : {0, 1}) {
    if (formats[which].kv != KvFormat::int4_rows || formats[which].head_dim % 32 == 0) continue;
    const char* const dim = which == 0 || formats.key.head_dim == formats.value.head_dim ? "head_dim" : "value_dim";
    reject(descriptor, fmt::format("a matrix of packed words is of 32 channels, and {} is no multiple of that", dim),
           fmt::format("accepted with int4_rows: {}=64, 96, 128, 160, 192 and 256; kv_gather reads other dimensions",
                       dim));
  }
  if (descriptor.mask != QueryMask::causal && descriptor.query_tokens == 1) {
    reject(descriptor, "the field mask applies to several query tokens only",
           "leave mask out or ask for query_tokens=2 to 16");
  }
  std::optional<BrokenRule> broken = why_not_named_family(families(), descriptor);
  if (broken) reject(descriptor, std::move(broken->rule), std::move(broken->remedy));
}

bool is_served(const GqaDecode& descriptor) {
  try {
    validate(descriptor);
    return true;
  } catch (const Failure&) {
    return false;
  }
}

std::string modifications(const GqaDecode& descriptor) {
  std::string names;
  const auto add = [&](bool asked, const char* name) {
    if (asked) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  add(descriptor.soft_cap, "soft_cap");
  add(descriptor.alibi, "alibi");
  add(!descriptor.score.empty(), "score");
  add(descriptor.window, "window");
  return names;
}

}  // namespace cubit::ops::gqa_decode
