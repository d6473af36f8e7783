// The interface of the operator merge for the registry, the command line and `explain`.
#include <cubit/merge.h>

#include "ops/merge/merge.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops {
namespace {

class MergeOperator final : public Operator {
 public:
  std::string_view name() const override { return "merge"; }
  std::string_view summary() const override {
    return "merge partial results of attention, each over its own keys, by their log-sum-exp";
  }
  std::vector<FieldHelp> fields() const override { return help_of(merge::fields()); }
  const ArgumentTable& arguments() const override { return merge::arguments(); }
  std::string canonical(std::string_view text) const override { return merge::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const Merge descriptor = merge::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        merge::make_source(descriptor, architecture), merge::make_report(descriptor), sizeof(cubit_merge_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](const void* arguments,
                                                                                         const runtime::DeviceFacts&) {
          return merge::encode(descriptor, pointers, arguments);
        });
  }
};

}  // namespace

const Operator& merge_operator() {
  static const MergeOperator instance;
  return instance;
}

}  // namespace cubit::ops
