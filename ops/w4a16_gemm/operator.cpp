// The interface of the operator w4a16_gemm for the registry, the command line and `explain`.
#include <cubit/w4a16_gemm.h>

#include <fmt/format.h>

#include "base/error.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops {
namespace {

class W4a16GemmOperator final : public Operator {
 public:
  std::string_view name() const override { return "w4a16_gemm"; }
  std::string_view summary() const override {
    return "activations times 4-bit or 8-bit weights, as GPTQ and AWQ checkpoints store them, or times dense weights";
  }
  std::vector<FieldHelp> fields() const override { return help_of(w4a16_gemm::fields()); }
  const ArgumentTable& arguments() const override { return w4a16_gemm::arguments(); }
  std::string suggest_help() const override {
    return "tile_m and tile_n of the set's member that launches of m, n, k take, by a performance model of an H200; "
           "with batch_invariant=true, activation_order=true or family sm75, which nobody has timed, the smallest "
           "tile_m "
           "that holds the rows";
  }
  std::string suggest(std::string_view text, const Numbers& sizes, const runtime::DeviceFacts& device) const override {
    return w4a16_gemm::suggest(w4a16_gemm::parse(text), sizes, device).text();
  }
  std::string canonical(std::string_view text) const override { return w4a16_gemm::parse(text).text(); }
  std::vector<std::string> members(std::string_view text, const codegen::Architecture& architecture) const override {
    std::vector<std::string> texts;
    for (const W4a16Gemm& member : w4a16_gemm::members(w4a16_gemm::parse(text), architecture))
      texts.push_back(member.text());
    return texts;
  }
  std::shared_ptr<const MemberChoice> choice(std::string_view text,
                                             const codegen::Architecture& architecture) const override {
    auto choice = std::make_shared<w4a16_gemm::GemmChoice>(w4a16_gemm::parse(text), architecture);
    return choice->member_count() > 1 ? std::move(choice) : nullptr;
  }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const std::vector<W4a16Gemm> members = w4a16_gemm::members(w4a16_gemm::parse(text), architecture);
    if (members.size() > 1) {
      throw Failure(Status::invalid_argument, fmt::format("{} for {}", text, architecture.name),
                    fmt::format("it names a set of {} kernels, and a plan belongs to one of them", members.size()),
                    fmt::format("give both tile_m and tile_n, for instance {}", members.front().text()));
    }
    const W4a16Gemm& descriptor = members.front();
    auto chosen = choose_family(w4a16_gemm::families(), descriptor, architecture);
    return chosen.family.plan(descriptor, architecture, std::move(chosen.report));
  }
};

}  // namespace

const Operator& w4a16_gemm_operator() {
  static const W4a16GemmOperator instance;
  return instance;
}

}  // namespace cubit::ops
