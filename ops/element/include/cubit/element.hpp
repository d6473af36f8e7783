// The 16-bit types of queries, activations and outputs: a field that descriptors have in common.
#pragma once

namespace cubit {

enum class Element { bf16, fp16 };

}  // namespace cubit
