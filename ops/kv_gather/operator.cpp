// The interface of the operator kv_gather for the registry, the command line and `explain`.
#include <cubit/kv_gather.h>

#include "ops/kv_gather/kv_gather.hpp"

namespace cubit::ops {
namespace {

class KvGatherOperator final : public Operator {
 public:
  std::string_view name() const override { return "kv_gather"; }
  std::string_view summary() const override {
    return "read rows of a KV cache as 16-bit values: the inverse of kv_append";
  }
  std::vector<FieldHelp> fields() const override { return help_of(kv_gather::fields()); }
  const ArgumentTable& arguments() const override { return kv_gather::arguments(); }
  std::string canonical(std::string_view text) const override { return kv_gather::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const KvGather descriptor = kv_gather::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        kv_gather::make_source(descriptor, architecture), kv_gather::make_report(descriptor),
        sizeof(cubit_kv_gather_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](const void* arguments,
                                                                                         const runtime::DeviceFacts&) {
          return kv_gather::encode(descriptor, pointers, arguments);
        });
  }
};

}  // namespace

const Operator& kv_gather_operator() {
  static const KvGatherOperator instance;
  return instance;
}

}  // namespace cubit::ops
