// Draws pictures of a plan: its fragments, its tiles in shared memory, and its shared-memory map. The JSON of
// cubit_explain_layouts is the only input, so the pictures serve every operator. Layouts of matrices are drawn, too.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cubit::tools {

struct Picture {
  std::string file;  ///< "fragment-mma.m16n8k16-A-16-bit.svg"
  std::string svg;
};

/// One picture per fragment, one per tile, and the memory map if the kernel has dynamic shared memory. `subject` names
/// the plan: "gqa_decode:heads_per_kv=8 for sm_90a".
std::vector<Picture> plan_pictures(const nlohmann::json& layouts, const std::string& subject);

/// The fragment's matrix, element by element: the lane, the register and the part of the register that hold the
/// element.
std::string fragment_picture(const nlohmann::json& fragment);

/// Shared memory in lines of 32 banks. The first panel shows where each row of the tile lies. Then each access has a
/// panel with the words that its worst instance touches, by lane. Words that wait for another word of the same bank
/// have a red outline.
std::string tile_picture(const nlohmann::json& tile, const std::string& subject);

/// For each phase of the kernel: the owners of the bytes of a block's dynamic shared memory.
std::string memory_picture(const nlohmann::json& memory, const std::string& subject);

/// One picture per layout of <cubit/matrix_layout.hpp>, and one of column-major order: the address of each element of a
/// matrix of 32 x 64 bytes, and enlarged the first 4 x 16 elements.
std::vector<Picture> layout_pictures();

}  // namespace cubit::tools
