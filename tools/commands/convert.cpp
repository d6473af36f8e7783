// cubit convert: converts a checkpoint's quantised layers from one layout to another. Each file of a sharded checkpoint
// becomes a file of the same name, and a new index names the file of each tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/reader.hpp"
#include "tools/new_checkpoint/conversion.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Converts the quantised layers of a checkpoint from one layout to another. Every weight keeps its value, bit for bit.
A layer consists of the tensors NAME.qweight, NAME.scales, NAME.qzeros and NAME.g_idx. All other tensors and the
metadata are copied. gptq and gptq_v2 differ only in their zeros, and a file does not name its layout, so --from must. A
layer that the target layout cannot store is refused: awq has no activation order, no 8-bit weights and no zero of 16;
gptq has no zero of 0; symmetric has only the zero 8 (128 for 8-bit weights). A symmetric layer without zeros does not
say how many bits a weight has: its g_idx says it, else --bits must. Layers may have different bits. packed is
pack-quantized of compressed-tensors: NAME.weight_packed, weight_scale, weight_zero_point, weight_g_idx, weight_shape.
--sort-activation-order sorts the input features of every layer with activation order by group, and writes the order as
NAME.permutation. cubit run applies a permutation to the activations. --fold-order puts it into the layers before.)";

constexpr const char* kExamples = R"(
Examples:
  cubit convert --from gptq --to awq --input model.safetensors --output model.awq.safetensors
  cubit convert --from awq --to gptq_v2 --input model.safetensors --output model.gptq.safetensors --threads 8
  cubit convert --from packed --to gptq_v2 --input model.safetensors --output model.gptq_v2.safetensors
  cubit convert --from gptq --to awq --input model.safetensors.index.json --output model_awq
      a checkpoint of several files, given by its index or its folder: writes files of the same names, and then a new
      index, into a folder
  cubit convert --from gptq --to gptq --sort-activation-order --fold-order down_proj=gate_proj,up_proj --input model \
    --output sorted
      kernels without activation order run the result; down_proj needs no permutation of its activations
A group index in the default order (g_idx[k] = k / group size) is left out for awq. Other files of the checkpoint's
folder, such as config.json with its quantization_config, are not changed.

Exit code: 0 success; 1 the output could not be written; 2 bad input.)";

struct ConvertOptions {
  std::string from;
  std::string to;
  std::string input;
  std::string output;
  std::optional<int> bits;  ///< none: each layer tells its own
  int threads = 0;
  bool sorts_activation_order = false;
  std::vector<std::string> folds;
  bool json = false;
};

CheckpointLayout layout_of(const char* option, const std::string& text) {
  if (const auto layout = parse_layout(text)) return *layout;
  throw BadInput(fmt::format("{} {}", option, text), "is not a format", fmt::format("accepted: {}", layout_names()));
}

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

void write_one(const Conversion& conversion, const std::string& input, const std::string& path) {
  require_another_file("--output", path, input);
  OutputFile output(path);
  conversion.write(0, output);
}

/// Throws BadInput if a name in the folder is, or leads to, a file of the checkpoint.
void require_other_files(const CheckpointReader& checkpoint, const std::string& folder,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string output = (std::filesystem::path(folder) / name).string();
    require_another_file("--output", output, checkpoint.path());
    for (const auto& file : checkpoint.files()) require_another_file("--output", output, file->path());
  }
}

/// Removes the old index first and writes the new index last: a folder without an index is no checkpoint.
void write_several(const Conversion& conversion, const CheckpointReader& checkpoint, const std::string& folder) {
  make_folder(folder, "--output");
  std::vector<std::string> names;
  for (const auto& file : checkpoint.files()) names.push_back(name_of(file->path()));
  const std::string index = name_of(checkpoint.path());
  require_other_files(checkpoint, folder, names);
  require_other_files(checkpoint, folder, {index});
  remove_file(folder, index);
  for (std::size_t i = 0; i < names.size(); ++i) {
    OutputFile output((std::filesystem::path(folder) / names[i]).string());
    conversion.write(i, output);
  }
  write_file(folder, index, conversion.index_of(names));
}

/// Throws BadInput for options that contradict each other.
ConversionRequest request_of(const ConvertOptions& options) {
  ConversionRequest request{layout_of("--from", options.from), layout_of("--to", options.to), options.bits, 1,
                            options.sorts_activation_order};
  if (request.from == request.to && !request.sorts_activation_order)
    throw BadInput("--to " + options.to, "is the format of --from already",
                   fmt::format("accepted: another of {}, or --sort-activation-order", layout_names()));
  request.threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (options.bits && *options.bits != 4 && *options.bits != 8)
    throw BadInput("--bits", "is not a valid number of bits", "accepted: 4, 8");
  if (options.bits == 8 && (request.from.format == W4Format::awq || request.to.format == W4Format::awq))
    throw BadInput("--bits 8", "awq has weights of 4 bits",
                   "accepted: 4, or 8 with gptq, gptq_v2, symmetric and packed");
  if (!options.folds.empty() && !request.sorts_activation_order)
    throw BadInput("--fold-order", "only sorted layers have an order to fold", "give --sort-activation-order too");
  for (const std::string& fold : options.folds) request.folds.push_back(parse_fold(fold));
  return request;
}

int print_conversion(const ConvertOptions& options, const Conversion& conversion, bool has_index) {
  const std::set<int> bits = conversion.bits();
  if (options.json) {
    nlohmann::ordered_json json = {
        {"from", options.from},
        {"to", options.to},
        {"bits", bits.size() == 1 ? nlohmann::ordered_json(*bits.begin()) : nlohmann::ordered_json(bits)},
        {"layers", conversion.layers()},
        {"others", conversion.others()}};
    if (options.sorts_activation_order) json["sorted"] = conversion.sorted();
    json[has_index ? "output_folder" : "output_file"] = options.output;
    print_json(json);
    return kExitGood;
  }
  fmt::print("{} {} of {} bits from {} to {}, {} other {} copied\n", conversion.layers(),
             conversion.layers() == 1 ? "layer" : "layers", fmt::join(bits, " and "), options.from, options.to,
             conversion.others(), conversion.others() == 1 ? "tensor" : "tensors");
  if (options.sorts_activation_order)
    fmt::print("{} {} sorted by group\n", conversion.sorted(), conversion.sorted() == 1 ? "layer is" : "layers are");
  fmt::print("written to {}\n", printable(options.output));
  return kExitGood;
}

int convert_checkpoint(const ConvertOptions& options, Console& console) {
  const ConversionRequest request = request_of(options);
  const CheckpointReader checkpoint(options.input);
  const Conversion conversion(checkpoint, request);
  if (const std::string warning = conversion.warning(); !warning.empty()) console.say(warning);
  if (checkpoint.has_index())
    write_several(conversion, checkpoint, options.output);
  else
    write_one(conversion, checkpoint.path(), options.output);
  return print_conversion(options, conversion, checkpoint.has_index());
}

}  // namespace

void add_convert(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("convert", kHelp);
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("--from", options->from, "Layout of the input: gptq, gptq_v2, awq, symmetric or packed")
      ->required();
  command->add_option("--to", options->to, "Layout of the output: gptq, gptq_v2, awq, symmetric or packed")->required();
  command
      ->add_option("--input", options->input,
                   "A safetensors file with quantised layers, the index of several files, or the folder")
      ->required();
  command
      ->add_option("--output", options->output,
                   "The safetensors file to write, or the folder for several files; existing files are replaced")
      ->required();
  const CLI::Option* bits =
      command
          ->add_option("--bits", options->bits,
                       "Bits of every weight: 4 or 8 (default: what each layer's zeros or g_idx say, else 4)")
          ->check(CLI::IsMember({4, 8}));
  command->add_option("--threads", options->threads, "Number of threads (default: number of processors)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--sort-activation-order", options->sorts_activation_order,
                    "Sort the input features of layers with activation order by group");
  command
      ->add_option("--fold-order", options->folds,
                   "LAYER=PRODUCER,…: put the permutation of sorted layers of this name into the layers before: "
                   "down_proj=gate_proj,up_proj")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(kExamples);
  command->final_callback([options, &context, bits] {
    if (bits->count() > 0 && !options->bits) options->bits = 0;  // CLI11 accepts an empty word
    context.action = [options, &context] { return convert_checkpoint(*options, context.console); };
  });
}

}  // namespace cubit::tools
