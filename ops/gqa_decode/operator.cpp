// The operator gqa_decode, as the registry, the command line and `cubit explain` see it.
#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops {
namespace {

class GqaDecodeOperator final : public Operator {
 public:
  std::string_view name() const override { return "gqa_decode"; }
  std::string_view summary() const override {
    return "attention of one new token per sequence, or of its last few, over a KV cache, grouped query heads";
  }
  std::vector<FieldHelp> fields() const override { return help_of(gqa_decode::fields()); }
  std::string tensors_help() const override {
    return "query [batch, query heads, head_dim] or [batch, query_tokens, query heads, head_dim] (where query_tokens > "
           "1 the latter), BF16 or F16\n"
           "key, value [batch, tokens, kv_heads, row] BF16, F16, U8 rows for int4_rows, I8, F8_E4M3 or F8_E5M2\n"
           "key_scale, value_scale F32 or F16 (where kv is int8_split, fp8_e4m3 or fp8_e5m2): [batch, tokens, "
           "kv_heads] where scales=head, with groups behind where scales=group, [batch, tokens] where scales=token, "
           "one number where scales=tensor; [kv_heads], or with groups behind, where all tokens have the same; value "
           "and value_scale by value_dim, value, value_groups, value_scales and "
           "value_scale_type, where values are stored otherwise\n"
           "lengths [batch] I32 (optional)\n"
           "page_table [batch, pages of a sequence] I32 (where cache=paged; caches are then [pages, page_size, "
           "kv_heads, row], or [pages, kv_heads, page_size, row] where hnd=1, and scales in the same way)\n"
           "mask [batch, query_tokens] I32 (where mask=tree): bit j of a query token's word is whether it sees query "
           "token j\n"
           "alibi_slopes [query heads] F32 (where alibi=true), sinks [query heads] F32 (where sinks=true), "
           "score_parameters of any type (where score=…, optional)\n"
           "output [batch, query heads, value_dim], with the query's dimension of query tokens where it has one\n"
           "lse [batch, query heads] F32 (where lse=1), with the query's dimension of query tokens where it has one\n"
           "numbers: softmax_scale (default 1 / sqrt(head_dim)), lse (0 or 1); where cache=paged max_length and hnd (0 "
           "or 1); where soft_cap=true soft_cap; where window=true window and kept_tokens (tokens; default 0); for "
           "tuning splits";
  }
  std::string suggest_help() const override {
    return "family, where it is auto, by kv_heads (default 1) and, where cache=paged, page_size (default 16)";
  }
  std::string suggest(std::string_view text, const Numbers& sizes, const runtime::DeviceFacts& device) const override {
    return gqa_decode::suggest(gqa_decode::families(), gqa_decode::parse(text), sizes, device).text();
  }
  std::string canonical(std::string_view text) const override { return gqa_decode::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    return gqa_decode::specialise(gqa_decode::families(), gqa_decode::parse(text), architecture);
  }
};

}  // namespace

const Operator& gqa_decode_operator() {
  static const GqaDecodeOperator instance;
  return instance;
}

}  // namespace cubit::ops
