// A kernel family is added by a class and an entry of a list. This test adds a toy family, which no other file knows.
// The toy is named, chosen, planned, preferred, and rejected with reasons.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "tests/support/gqa_plans.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// A kernel whose source is empty.
class ToyKernel final : public Specialisation {
 public:
  explicit ToyKernel(PlanReport report) : report_(std::move(report)) {}
  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return report_; }
  std::size_t workspace_bytes(const void*, const runtime::DeviceFacts&) const override { return 42; }
  Launch encode(const void*, void*, std::size_t, const runtime::DeviceFacts&) const override { return {}; }
  std::size_t argument_bytes() const override { return sizeof(cubit_gqa_decode_arguments); }

 private:
  codegen::KernelSource source_;
  PlanReport report_;
};

/// A family that serves head_dim=64 on architectures with TMA, and no windows.
class ToyFamily final : public Family {
 public:
  explicit ToyFamily(bool is_preferred) : is_preferred_(is_preferred) {}
  std::string_view name() const override { return "toy"; }
  std::string_view accepted() const override { return "sm_90 and later"; }
  std::optional<BrokenRule> why_not_descriptor(const GqaDecode& descriptor) const override {
    if (!descriptor.window) return std::nullopt;
    return BrokenRule{"family=toy: it has no windows", "window=false, or leave family out"};
  }
  std::optional<std::string> why_not(const GqaDecode& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.bulk_copy) return "it needs TMA";
    if (descriptor.head_dim != 64) return "it takes head_dim=64";
    return descriptor.window ? std::optional<std::string>("it has no windows") : std::nullopt;
  }
  FamilyPreference preference(const GqaDecode&, const codegen::Architecture&) const override {
    return {is_preferred_, "it is a toy"};
  }
  std::shared_ptr<const Specialisation> plan(const GqaDecode&, const codegen::Architecture&,
                                             PlanReport report) const override {
    report.decisions.push_back({"toy", "yes", "this test adds it"});
    return std::make_shared<ToyKernel>(std::move(report));
  }

 private:
  bool is_preferred_;
};

/// The list of the operator's families, with the toy family at the end.
class ListWithToy {
 public:
  explicit ListWithToy(bool is_preferred)
      : toy_(is_preferred), all_(families().families.begin(), families().families.end()) {
    all_.push_back(&toy_);
    list_ = {families().operator_name, families().accepted, all_};
  }
  const FamilyList<Family>& list() const { return list_; }

  std::shared_ptr<const Specialisation> kernel_of(const GqaDecode& descriptor, const char* architecture) const {
    return specialise(list_, descriptor, codegen::find_architecture(architecture));
  }

 private:
  ToyFamily toy_;
  std::vector<const Family*> all_;
  FamilyList<Family> list_;
};

std::string why_rejected(const PlanReport& report, std::string_view family) {
  for (const Rejection& one : report.rejections) {
    if (one.family == family) return one.why;
  }
  return "not rejected";
}

TEST(GqaToyFamily, IsNamedAndPlanned) {
  const ListWithToy with(false);
  const auto kernel = with.kernel_of({.head_dim = 64, .family = "toy"}, "sm_90a");
  EXPECT_EQ(kernel->report().family, "toy_gqa_decode");
  EXPECT_EQ(tests::value_of(kernel, "toy"), "yes");
  EXPECT_EQ(kernel->workspace_bytes(nullptr, {}), 42u);
  EXPECT_EQ(kernel->report().rejections.size(), families().families.size());
  EXPECT_EQ(why_rejected(kernel->report(), "sm80_gqa_decode"), "the descriptor names another");
}

TEST(GqaToyFamily, IsChosenOnlyIfItIsPreferred) {
  const GqaDecode descriptor{.head_dim = 64};
  const auto other = ListWithToy(false).kernel_of(descriptor, "sm_120");
  EXPECT_EQ(other->report().family, "sm80_gqa_decode");
  EXPECT_EQ(why_rejected(other->report(), "toy_gqa_decode"), "it is a toy");
  const auto toy = ListWithToy(true).kernel_of(descriptor, "sm_120");
  EXPECT_EQ(toy->report().family, "toy_gqa_decode");
  EXPECT_EQ(why_rejected(toy->report(), "sm80_gqa_decode"), "family toy is faster there");
}

TEST(GqaToyFamily, IsRejectedWithItsReasons) {
  const ListWithToy with(true);
  const auto kernel = with.kernel_of({.head_dim = 128}, "sm_120");
  EXPECT_EQ(why_rejected(kernel->report(), "toy_gqa_decode"), "it takes head_dim=64");
  try {
    with.kernel_of({.head_dim = 64, .family = "toy"}, "sm_80");
    ADD_FAILURE() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_STREQ(failure.what(),
                 "gqa_decode:head_dim=64,family=toy for sm_80: family=toy: it needs TMA; accepted: sm_90 and later, or "
                 "leave family out");
  }
}

TEST(GqaToyFamily, IsAValueOfTheDescriptorsField) {
  const ListWithToy with(false);
  const Field<GqaDecode> field = family_field<GqaDecode>(with.list());
  EXPECT_EQ(field.help.accepts, "auto, sm75, sm80, sm90, toy");
  GqaDecode descriptor{.head_dim = 64, .window = true};
  EXPECT_TRUE(field.set(descriptor, "toy"));
  EXPECT_EQ(descriptor.family, "toy");
  EXPECT_EQ(why_not_named_family(with.list(), descriptor).value().rule, "family=toy: it has no windows");
  descriptor.window = false;
  EXPECT_FALSE(why_not_named_family(with.list(), descriptor).has_value());
  EXPECT_FALSE(field.set(descriptor, "tin"));
}

TEST(GqaToyFamily, IsUnknownToTheOperatorItself) {
  tests::expect_refused_with([] { parse("gqa_decode:head_dim=64,family=toy"); },
                             "toy is not a value of family; accepted: auto, sm75, sm80, sm90");
  GqaDecode descriptor{.head_dim = 64};
  descriptor.family = "toy";
  tests::expect_refused_with([&] { validate(descriptor); },
                             "family=toy names no kernel family; accepted: auto, sm75, sm80, sm90");
}

}  // namespace
}  // namespace cubit::ops::gqa_decode
