// The interface of the operator gate_quantize for the registry, the command line and `explain`.
#include <cubit/gate_quantize.h>

#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops {
namespace {

class GateQuantizeOperator final : public Operator {
 public:
  std::string_view name() const override { return "gate_quantize"; }
  std::string_view summary() const override {
    return "multiply rows by their activated gates, then quantise to int8 or e4m3";
  }
  std::vector<FieldHelp> fields() const override { return help_of(gate_quantize::fields()); }
  const ArgumentTable& arguments() const override { return gate_quantize::arguments(); }
  std::string canonical(std::string_view text) const override { return gate_quantize::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const GateQuantize descriptor = gate_quantize::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        gate_quantize::make_source(descriptor, architecture), gate_quantize::make_report(descriptor, architecture),
        sizeof(cubit_gate_quantize_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](
            const void* arguments, const runtime::DeviceFacts& device) {
          return gate_quantize::encode(descriptor, pointers, arguments, device);
        });
  }
};

}  // namespace

const Operator& gate_quantize_operator() {
  static const GateQuantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
