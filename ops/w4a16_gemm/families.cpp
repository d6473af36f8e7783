// The list of the operator's kernel families. To add a family, add its folder and its line here.
#include "ops/w4a16_gemm/families.hpp"

#include <array>

namespace cubit::ops::w4a16_gemm {

BrokenRule rule_of_dense_weights() { return {"there is no kernel of dense weights yet", "leave family out"}; }

BrokenRule rule_of_layers() {
  return {"its tensor maps belong to one layer of weights",
          "leave family and tile_n out, and ask for tile_m=8, 16, 32 or 64, or launch each layer by itself"};
}

const FamilyList<GemmFamily>& families() {
  static const std::array kAll = {&sm80::family(), &sm90::family(), &sm90_persistent::family(), &sm75::family()};
  static const FamilyList<GemmFamily> kList = {
      "w4a16_gemm",
      "sm_80 and later; tile_n=96 to 224, tile_m=80 to 256 and format=dense on sm_90a; sm_75 with element=fp16 and "
      "without tile_n",
      kAll};
  return kList;
}

BlockPlan plan_block(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  return choose_family(families(), descriptor, architecture).family.block_plan(descriptor, architecture);
}

}  // namespace cubit::ops::w4a16_gemm
