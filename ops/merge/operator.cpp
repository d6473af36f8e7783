// The operator's face: what the registry, the command line and `explain` see. And what `cubit bench merge` measures.
#include <fmt/format.h>

#include "ops/merge/merge.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops {
namespace {

class MergeOperator final : public Operator {
 public:
  std::string_view name() const override { return "merge"; }
  std::string_view summary() const override {
    return "partial results of attention, each over keys of its own, merged by their log-sum-exp";
  }
  std::vector<FieldHelp> fields() const override { return help_of(merge::fields()); }
  std::string tensors_help() const override {
    return "partial_outputs [parts, ..., heads, head_dim] BF16, F16 or F32: any dimensions of queries between\n"
           "partial_lse [parts, ..., heads] F32: natural logarithms; -inf: an empty part\n"
           "output [..., heads, head_dim]\n"
           "lse [..., heads] F32 (where lse=1)\n"
           "numbers: lse (0 or 1; default 0)";
  }
  std::string random_help() const override {
    return "parts, rows, heads, lse, pattern (0 normal, 1 empty parts, 2 log-sum-exps far apart, 3 the largest ones, 4 "
           "equal ones and outputs that cancel, 5 ascending ones)";
  }
  std::vector<BenchCase> bench_cases() const override {
    std::vector<BenchCase> cases;
    for (const char* descriptor :
         {"merge", "merge:input=fp16,output=fp16", "merge:input=fp32", "merge:head_dim=64", "merge:head_dim=512"}) {
      for (const double parts : {2, 8}) {
        cases.push_back({"8192 queries, 32 heads",
                         fmt::format("{} parts", parts),
                         descriptor,
                         {{"parts", parts}, {"rows", 8192}, {"heads", 32}},
                         0,
                         0.85});
      }
    }
    return cases;
  }
  std::string canonical(std::string_view text) const override { return merge::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const Merge descriptor = merge::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        merge::make_source(descriptor, architecture), merge::make_report(descriptor),
        [descriptor](const void* arguments, const runtime::DeviceFacts&) {
          return merge::encode(descriptor, arguments);
        });
  }
  std::unique_ptr<Problem> problem(std::string_view text, std::span<const Tensor> inputs,
                                   const Numbers& numbers) const override {
    return merge::make_problem(text, inputs, numbers);
  }
  std::unique_ptr<Problem> random(std::string_view text, const Numbers& sizes, std::uint64_t seed) const override {
    return merge::make_random_problem(text, sizes, seed);
  }
};

}  // namespace

const Operator& merge_operator() {
  static const MergeOperator instance;
  return instance;
}

}  // namespace cubit::ops
