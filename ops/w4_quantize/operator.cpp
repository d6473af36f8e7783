// The operator's face: what the registry, the command line and `explain` see. And what `cubit bench w4_quantize`
// measures.
#include <fmt/format.h>

#include "ops/one_pass.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"

namespace cubit::ops {
namespace {

class W4QuantizeOperator final : public Operator {
 public:
  std::string_view name() const override { return "w4_quantize"; }
  std::string_view summary() const override {
    return "weights rounded to 4 bits, group by group, in a checkpoint's layout; and how far off they are";
  }
  std::vector<FieldHelp> fields() const override { return help_of(w4_quantize::fields()); }
  std::string tensors_help() const override {
    return "weights [n, k] F16 or BF16, as a linear layer has them\n"
           "qweight [k / 8, n] I32, for awq [k, n / 8]: written, as w4a16_gemm takes it\n"
           "scales [k / group_size, n] F16: written\n"
           "qzeros [k / group_size, n / 8] I32 (not for symmetric): written\n"
           "max_error, rms_error [k / group_size, n] F32: written; of each group's weights, the largest error and the "
           "root of its mean square\n"
           "numbers: errors (0: no errors are written; default 1)";
  }
  std::string canonical(std::string_view text) const override { return w4_quantize::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const W4Quantize descriptor = w4_quantize::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        w4_quantize::make_source(descriptor, architecture), w4_quantize::make_report(descriptor),
        [descriptor](const void* arguments, const runtime::DeviceFacts&) {
          return w4_quantize::encode(descriptor, arguments);
        });
  }
};

}  // namespace

const Operator& w4_quantize_operator() {
  static const W4QuantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
