// The list of the operator's kernel families. To add a family, add its folder and its line here.
#include "ops/w4a16_gemm/families.hpp"

#include <array>

namespace cubit::ops::w4a16_gemm {

const FamilyList<GemmFamily>& families() {
  static const std::array kAll = {&sm80::family(), &sm90::family(), &sm75::family()};
  static const FamilyList<GemmFamily> kList = {
      "w4a16_gemm", "sm_80 and later, tile_n=96 to 224 on sm_90a; sm_75 with element=fp16 and without tile_n", kAll};
  return kList;
}

BlockPlan plan_block(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return choose_family(families(), descriptor, architecture).family.block_plan(descriptor, architecture);
}

}  // namespace cubit::ops::w4a16_gemm
