// The operator's face: what the registry, the command line and `explain` see. And what `cubit bench kv_gather`
// measures.
#include <fmt/format.h>

#include "ops/kv_gather/kv_gather.hpp"

namespace cubit::ops {
namespace {

class KvGatherOperator final : public Operator {
 public:
  std::string_view name() const override { return "kv_gather"; }
  std::string_view summary() const override { return "rows of a KV cache as 16-bit values: the inverse of kv_append"; }
  std::vector<FieldHelp> fields() const override { return help_of(kv_gather::fields()); }
  std::string tensors_help() const override {
    return "key_cache, value_cache [batch, max_length, kv_heads, row] BF16, F16, U8 rows for int4_rows, I8, F8_E4M3 or "
           "F8_E5M2\n"
           "key_scale, value_scale F32 or F16 (where kv is int8_split, fp8_e4m3 or fp8_e5m2): [batch, max_length, "
           "kv_heads] where scales=head, with groups behind where scales=group, [batch, max_length] where "
           "scales=token, one number where scales=tensor; [kv_heads], or with groups behind, where all tokens have the "
           "same. value_cache and value_scale by value, value_groups, "
           "value_scales and value_scale_type, where these are given\n"
           "from, to [batch] I32 (optional): the tokens of each sequence, the last excluded; default: all\n"
           "key [batch, tokens, kv_heads, head_dim], value [batch, tokens, kv_heads, value_dim]: written; rows of no "
           "token are zeros\n"
           "page_table [batch, pages of a sequence] I32 (where cache=paged; caches are then [pages, page_size, "
           "kv_heads, row], or [pages, kv_heads, page_size, row] where hnd=1, and scales likewise)\n"
           "numbers: tokens (default: as many as the longest sequence gives), max_length; where cache=paged also hnd "
           "(0 or 1)";
  }
  std::string canonical(std::string_view text) const override { return kv_gather::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const KvGather descriptor = kv_gather::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        kv_gather::make_source(descriptor, architecture), kv_gather::make_report(descriptor),
        [descriptor](const void* arguments, const runtime::DeviceFacts&) {
          return kv_gather::encode(descriptor, arguments);
        });
  }
};

}  // namespace

const Operator& kv_gather_operator() {
  static const KvGatherOperator instance;
  return instance;
}

}  // namespace cubit::ops
