// Pictures of a plan: its fragments, its tiles in shared memory, the shared-memory map. Drawn from
// cubit_explain_layouts' JSON alone, so whatever operator a plan is of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cubit::tools {

struct Picture {
  std::string file;  ///< "fragment-mma.m16n8k16-A-16-bit.svg"
  std::string svg;
};

/// One per fragment, one per tile, and the memory map where the kernel has dynamic shared memory. `subject` says of
/// what: "gqa_decode:heads_per_kv=8 for sm_90a".
std::vector<Picture> plan_pictures(const nlohmann::json& layouts, const std::string& subject);

/// The matrix, element by element: which lane holds it, and in which register and part of it.
std::string fragment_picture(const nlohmann::json& fragment);

/// Memory in lines of 32 banks: where each row of the tile lies, then for each access the words that its worst instance
/// touches, by lane, with the words outlined that wait for another of the same bank.
std::string tile_picture(const nlohmann::json& tile, const std::string& subject);

/// Per phase of the kernel: who owns which bytes of a block's dynamic shared memory.
std::string memory_picture(const nlohmann::json& memory, const std::string& subject);

}  // namespace cubit::tools
