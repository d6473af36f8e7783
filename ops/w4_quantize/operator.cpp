// The operator's face: what the registry, the command line and `explain` see. And what `cubit bench w4_quantize`
// measures.
#include <fmt/format.h>

#include "check/random_rows.hpp"
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
  std::string random_help() const override { return fmt::format("n, k, errors, {}", kRowPatternsHelp); }
  std::vector<BenchCase> bench_cases() const override {
    std::vector<BenchCase> cases;
    for (const char* descriptor : {"w4_quantize", "w4_quantize:format=awq", "w4_quantize:format=symmetric,input=bf16",
                                   "w4_quantize:group_size=32", "w4_quantize:format=awq,group_size=all"}) {
      for (const double size : {4096, 16384}) {
        const bool has_groups = std::string_view(descriptor).find("all") == std::string_view::npos;
        cases.push_back({"square layers",
                         fmt::format("n = k = {}", size),
                         descriptor,
                         {{"n", size}, {"k", size}},
                         0,
                         has_groups ? 0.8 : 0});
      }
    }
    return cases;
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
  std::unique_ptr<Problem> problem(std::string_view text, std::span<const Tensor> inputs,
                                   const Numbers& numbers) const override {
    return w4_quantize::make_problem(text, inputs, numbers);
  }
  std::unique_ptr<Problem> random(std::string_view text, const Numbers& sizes, std::uint64_t seed) const override {
    return w4_quantize::make_random_problem(text, sizes, seed);
  }
};

}  // namespace

const Operator& w4_quantize_operator() {
  static const W4QuantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
