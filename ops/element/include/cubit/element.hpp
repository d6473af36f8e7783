// The 16-bit types of queries, activations and outputs, which descriptors of several operators use.
#pragma once

namespace cubit {

enum class Element { bf16, fp16 };

}  // namespace cubit
