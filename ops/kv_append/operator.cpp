// The interface of the operator kv_append for the registry, the command line and `explain`.
#include <cubit/kv_append.h>

#include "ops/kv_append/kv_append.hpp"

namespace cubit::ops {
namespace {

class KvAppendOperator final : public Operator {
 public:
  std::string_view name() const override { return "kv_append"; }
  std::string_view summary() const override {
    return "append new keys and values to a KV cache: rotary embedding and quantisation in one pass";
  }
  std::vector<FieldHelp> fields() const override { return help_of(kv_append::fields()); }
  const ArgumentTable& arguments() const override { return kv_append::arguments(); }
  std::string canonical(std::string_view text) const override { return kv_append::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const KvAppend descriptor = kv_append::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        kv_append::make_source(descriptor, architecture), kv_append::make_report(descriptor),
        sizeof(cubit_kv_append_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](
            const void* arguments, const runtime::DeviceFacts& device) {
          return kv_append::encode(descriptor, pointers, arguments, device);
        });
  }
};

}  // namespace

const Operator& kv_append_operator() {
  static const KvAppendOperator instance;
  return instance;
}

}  // namespace cubit::ops
