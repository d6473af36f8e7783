// The index of a checkpoint in several safetensors files: which file has which tensor.
//
//   {"metadata": {…}, "weight_map": {"model.layers.0.mlp.down_proj.qweight": "model-00001-of-00002.safetensors", …}}
//
// Such files come from strangers, as safetensors do: every rule that one breaks is a BadInput that names the rule, and
// no file outside the index's own folder is ever named. Format: huggingface.co/docs/safetensors, "Sharded".
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace cubit::tools {

/// The text of an index, of at most 100 MB as a header may have. Throws BadInput.
std::string read_checkpoint_index(const std::string& path);

/// Tensor -> file name, of a file beside the index. `label` names the index in messages. Throws BadInput.
std::map<std::string, std::string> parse_checkpoint_index(std::string_view text, const std::string& label);

}  // namespace cubit::tools
