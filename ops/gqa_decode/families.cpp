// The one list of gqa_decode's kernel families, and the choice among them.
#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/sm75/sm75.hpp"
#include "ops/gqa_decode/sm80/sm80.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"

namespace cubit::ops::gqa_decode {

const FamilyList<Family>& families() {
  static const Family* const all[] = {&sm80::family(), &sm90::family(), &sm75::family()};
  static const FamilyList<Family> list{
      "gqa_decode", "sm_80 and later; sm_75 with query=fp16, output=fp16 and a cache without bf16", all};
  return list;
}

std::shared_ptr<const Specialisation> specialise(const FamilyList<Family>& list, const GqaDecode& descriptor,
                                                 const codegen::Architecture& architecture) {
  ChosenFamily<Family> chosen = choose_family(list, descriptor, architecture);
  return chosen.family.plan(descriptor, architecture, std::move(chosen.report));
}

}  // namespace cubit::ops::gqa_decode
