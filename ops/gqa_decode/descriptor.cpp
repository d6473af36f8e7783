// The descriptor: which values each field takes, and the rules between fields.
#include <fmt/format.h>

#include <numeric>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/user_code.hpp"

namespace cubit::ops::gqa_decode {
namespace {

std::vector<int> one_to(int last) {
  std::vector<int> values(last);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

/// Whether the code is there is asked where it is needed: a text may be read without it.
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
  append(table,
         {
             word_field<GqaDecode, Element>({"query", "bf16, fp16", "bf16", "type of the query"}, &GqaDecode::query,
                                            elements),
             word_field<GqaDecode, Element>({"output", "bf16, fp16", "the query's type", "type of the output"},
                                            &GqaDecode::output, elements),
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
             flag_field<GqaDecode>("window", "a query sees the last few tokens, and those that are kept",
                                   &GqaDecode::window),
             flag_field<GqaDecode>("sinks", "a number per head joins the softmax's denominator", &GqaDecode::sinks),
             number_field<GqaDecode>(
                 {"alignment", "16, 8, 4", "16", "bytes that every pointer and stride is a multiple of"},
                 &GqaDecode::alignment, {16, 8, 4}),
             word_field<GqaDecode, std::string>(
                 {"family", "auto, sm75, sm80, sm90", "auto",
                  "kernel family; auto is the one that was measured to be faster, see cubit explain"},
                 &GqaDecode::family, {{"auto", "auto"}, {"sm75", "sm75"}, {"sm80", "sm80"}, {"sm90", "sm90"}}),
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
  bool output_given = false;
  for (const auto& [name, value] : split_fields(text)) {
    output_given = output_given || name == "output";
    if (name == "mask" && descriptor.query_tokens == 1) {
      throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                    "the field mask applies to several query tokens only",
                    "leave mask out or ask for query_tokens=2 to 16");
    }
  }
  if (!output_given) descriptor.output = descriptor.query;
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
  if (!formats.are_alike() && descriptor.family == "sm90") {
    reject(descriptor, fmt::format("family=sm90: {}", kOneFormatOnly), "family=sm80, or leave family out");
  }
  if (descriptor.family == "sm75") {
    const std::string why = why_not_all_fp16(descriptor);
    if (!why.empty()) {
      reject(descriptor, "family=sm75 multiplies fp16 alone: " + why,
             "a cache without bf16 with query=fp16 and output=fp16, or leave family out");
    }
  }
  for (const std::size_t which : {0, 1}) {
    if (formats[which].kv != KvFormat::int4_rows || formats[which].head_dim % 32 == 0) continue;
    const char* const dim = which == 0 || formats.key.head_dim == formats.value.head_dim ? "head_dim" : "value_dim";
    reject(descriptor, fmt::format("a matrix of packed words is of 32 channels, and {} is no multiple of that", dim),
           fmt::format("accepted beside int4_rows: {}=64, 96, 128, 160, 192 and 256; kv_gather reads the others", dim));
  }
  if (descriptor.mask != QueryMask::causal && descriptor.query_tokens == 1) {
    reject(descriptor, "the field mask applies to several query tokens only",
           "leave mask out or ask for query_tokens=2 to 16");
  }
  if (descriptor.family == "sm90") {
    if (!is_usual_head_dim(descriptor.head_dim)) {
      reject(descriptor, fmt::format("family=sm90: {}", kUsualHeadDimsOnly), "family=sm80, or leave family out");
    }
    const std::string why = why_not_bulk_copies(descriptor);
    if (!why.empty()) reject(descriptor, "family=sm90 copies rows in bulk: " + why, "family=sm80, or leave family out");
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

std::string why_not_all_fp16(const GqaDecode& descriptor) {
  if (descriptor.query != Element::fp16 || descriptor.output != Element::fp16)
    return fmt::format("the {} is bf16", descriptor.query != Element::fp16 ? "query" : "output");
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const bool keys = formats.key.kv == KvFormat::bf16;
  const bool values = formats.value.kv == KvFormat::bf16;
  if (!keys && !values) return "";
  return fmt::format("the {} bf16", keys && values ? "cache is" : keys ? "keys are" : "values are");
}

std::string why_not_bulk_copies(const GqaDecode& descriptor) {
  if (!has_unaligned_rows(descriptor)) {
    return descriptor.alignment < 16 ? "every pointer and stride must be a multiple of 16 bytes" : "";
  }
  const int row = descriptor.row_bytes();
  if (descriptor.cache == KvAddressing::paged)
    return fmt::format("rows of a paged cache must be a multiple of 16 bytes, and these are {}", row);
  if (row % descriptor.alignment == 0) return "";
  return fmt::format("rows of {} bytes follow one another only with alignment={}", row, row % 8 == 0 ? "8 or 4" : "4");
}

bool has_unaligned_rows(const GqaDecode& descriptor) { return descriptor.row_bytes() % 16 != 0; }

}  // namespace cubit::ops::gqa_decode
