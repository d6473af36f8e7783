// The index of a checkpoint in several safetensors files: which file has which tensor.
//
//   {"metadata": {…}, "weight_map": {"model.layers.0.mlp.down_proj.qweight": "model-00001-of-00002.safetensors", …}}
//
// Index files come from strangers. Every violation of a rule is a BadInput that names the rule, and a file outside the
// index's own folder is never accepted. Format: huggingface.co/docs/safetensors, "Sharded".
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace cubit::tools {

/// The text of an index of at most 100 MB, the limit of a safetensors header. Throws BadInput.
std::string read_checkpoint_index(const std::string& path);

/// Maps each tensor to its file's name; the files lie in the folder of the index. `label` names the index in messages.
/// Throws BadInput.
std::map<std::string, std::string> parse_checkpoint_index(std::string_view text, const std::string& label);

/// Throws BadInput that names the index if the file `path`, which the index names, does not exist.
void require_shard(const std::string& path, const std::string& index);

}  // namespace cubit::tools
