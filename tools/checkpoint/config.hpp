// Reads what the files beside a checkpoint's weights state about their quantisation.
#pragma once

#include <cubit/w4_evidence.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::tools {

/// The statements of quantize_config.json, of AutoAWQ's quant_config.json and of config.json's quantization_config in
/// the folder of `path`: a safetensors file, an index, or the folder itself. A file that does not exist or that cannot
/// be read states nothing.
std::vector<W4Config> read_quantisation_configs(const std::string& path);

/// The statements of one file. Text that is no JSON object states nothing.
W4Config parse_quantisation_config(const std::string& file, std::string_view text);

}  // namespace cubit::tools
