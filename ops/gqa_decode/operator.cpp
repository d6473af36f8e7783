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
  const ArgumentTable& arguments() const override { return gqa_decode::arguments(); }
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
