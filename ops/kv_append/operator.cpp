// The operator's face: what the registry, the command line and `explain` see. And what `cubit bench kv_append`
// measures.
#include <fmt/format.h>

#include "ops/kv_append/kv_append.hpp"

namespace cubit::ops {
namespace {

class KvAppendOperator final : public Operator {
 public:
  std::string_view name() const override { return "kv_append"; }
  std::string_view summary() const override {
    return "new keys and values into a KV cache: rotary embedding and quantisation in one pass";
  }
  std::vector<FieldHelp> fields() const override { return help_of(kv_append::fields()); }
  std::string tensors_help() const override {
    return "key [batch, tokens, kv_heads, head_dim], value [batch, tokens, kv_heads, value_dim] BF16 or F16: the new "
           "ones\n"
           "lengths [batch] I32 (optional): tokens that are in the cache already\n"
           "positions [batch, tokens] I32 (optional, instead of lengths): where each goes, no two to the same place; "
           "outside the cache: left out\n"
           "counts [batch] I32 (optional): how many of a sequence's tokens are there\n"
           "cosines, sines [positions, rotary_dim / 2] F32 (where rotary is not none): at least those up to the last "
           "new "
           "token\n"
           "key_cache, value_cache [batch, max_length, kv_heads, row] BF16, F16, U8 rows for int4_rows, I8, F8_E4M3 or "
           "F8_E5M2: given both or neither (then zeros), and written\n"
           "key_scale, value_scale F32 or F16 (where kv is int8_split, fp8_e4m3 or fp8_e5m2): [batch, max_length, "
           "kv_heads] where scales=head, and with groups behind where scales=group: given beside the caches or not, "
           "and written; [batch, max_length] where scales=token and one number where scales=tensor: read. "
           "value_cache and value_scale by value, value_groups, value_scales and value_scale_type, where these are "
           "given\n"
           "page_table [batch, pages of a sequence] I32 (where cache=paged; caches are then [pages, page_size, "
           "kv_heads, row], or [pages, kv_heads, page_size, row] where hnd=1, and scales likewise)\n"
           "numbers: max_length (default: the cache's, or where the last new token fits); where cache=paged also hnd "
           "(0 or 1), and where there is no key_cache page_size (default 16) and pages";
  }
  std::string canonical(std::string_view text) const override { return kv_append::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const KvAppend descriptor = kv_append::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        kv_append::make_source(descriptor, architecture), kv_append::make_report(descriptor),
        [descriptor](const void* arguments, const runtime::DeviceFacts& device) {
          return kv_append::encode(descriptor, arguments, device);
        });
  }
};

}  // namespace

const Operator& kv_append_operator() {
  static const KvAppendOperator instance;
  return instance;
}

}  // namespace cubit::ops
