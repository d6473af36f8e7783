// cubit study kv: the error of attention over a quantised KV cache, its bytes per token, and its time on a GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/bench/results.hpp"
#include "tools/commands/study_commands.hpp"
#include "tools/study/kv/kv_measure.hpp"
#include "tools/study/kv/kv_report.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    R"(Compares formats of a KV cache: INT8 and FP8 with a scale per tensor, token, head and group, INT4 with 1 to 8
groups, and formats with a scale per channel that cubit has no kernel for and that are simulated on the host. kv_append
writes the cache, and gqa_decode reads it. The error is |output - exact| / |exact| of the attention output; the exact
output is computed in double precision from the keys and values in fp16. With a GPU, the time is that of gqa_decode, as
in cubit bench. The keys and values are made up, with outlier channels in the keys, or come from a file.)";

constexpr const char* kExamples = R"(
Examples:
  cubit study kv --json kv.json --picture kv.svg
  cubit study kv --formats int8,int4 --tokens 4096 --kv-heads 8
  cubit study kv --input recorded.safetensors
      tensors query [batch, heads, head_dim], key and value [batch, tokens, kv_heads, head_dim] of any float type

Exit code: 0 success; 1 there is no device, or a value exceeds fp16; 2 bad input.)";

struct KvOptions {
  KvSizes sizes;
  std::string input;
  std::string formats;
  ProblemOptions device;            ///< of which only the device and the architecture are used
  std::optional<std::string> json;  ///< a file, or "" for standard output
  std::string picture;
};

void require_size(const char* option, std::size_t value, std::size_t most) {
  if (value >= 1 && value <= most) return;
  throw BadInput(fmt::format("{} {}", option, value), "is no size of a KV cache",
                 fmt::format("accepted: from 1 to {}", most));
}

KvData data_of(const KvOptions& options) {
  if (!options.input.empty()) return read_data(options.input);
  require_size("--batch", options.sizes.batch, 1024);
  require_size("--tokens", options.sizes.tokens, 1 << 20);
  require_size("--kv-heads", options.sizes.kv_heads, 256);
  require_size("--heads-per-kv", options.sizes.heads_per_kv, 64);
  require_size("--head-dim", options.sizes.head_dim, 256);
  if (!(options.sizes.outliers >= 1 && options.sizes.outliers <= 1000))
    throw BadInput(fmt::format("--outliers {}", options.sizes.outliers), "is no factor of outlier channels",
                   "accepted: from 1 to 1000");
  return made_up_data(options.sizes);
}

Json case_json(const KvOptions& options, const KvSizes& sizes) {
  Json json = {{"batch", sizes.batch},
               {"tokens", sizes.tokens},
               {"kv_heads", sizes.kv_heads},
               {"heads_per_kv", sizes.heads_per_kv},
               {"head_dim", sizes.head_dim}};
  if (options.input.empty()) {
    json["outliers"] = sizes.outliers;
    json["seed"] = sizes.seed;
  } else {
    json["input"] = options.input;
  }
  return json;
}

Json measure_all(KvStudy& study, const std::vector<KvFormat>& formats, Console& console) {
  Json entries = Json::array();
  const auto start = std::chrono::steady_clock::now();
  for (const KvFormat& format : formats) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    console.status(progress_text(entries.size(), formats.size(), elapsed.count(), format.name()));
    entries.push_back(study.measure(format));
  }
  console.status("");
  return entries;
}

int study_kv(const KvOptions& options, Context& context) {
  if (options.device.architectures) parse_architectures(*options.device.architectures);
  const bool prints_json = options.json && options.json->empty();
  if (options.json) require_another_file("--json", *options.json, options.input);
  require_another_file("--picture", options.picture, options.input);
  std::optional<OutputFile> file;  // opened before the work begins
  if (options.json && !prints_json) file.emplace(*options.json);
  std::optional<OutputFile> picture;
  if (!options.picture.empty()) picture.emplace(options.picture);
  KvData data = data_of(options);
  const KvSizes sizes = data.sizes;
  const std::vector<KvFormat> formats = chosen_formats(kv_formats(static_cast<int>(sizes.head_dim)), options.formats);
  const KernelRunner runner(options.device, context);
  KvStudy measured(std::move(data), runner);
  Json entries = measure_all(measured, formats, context.console);
  Json study = {{"study", "kv"}};
  study.update(origin_json(runner));
  study["case"] = case_json(options, sizes);
  study["entries"] = std::move(entries);
  if (picture) picture->commit_text(kv_picture(study));
  if (file) file->commit_text(json_text(study) + "\n");
  prints_json ? print_json(study) : fmt::print("{}", kv_table(study));
  return kExitGood;
}

}  // namespace

void add_study_kv(CLI::App& study, Context& context) {
  CLI::App* command = study.add_subcommand("kv", kHelp);
  auto options = std::make_shared<KvOptions>();
  KvSizes& sizes = options->sizes;
  command->add_option("--formats", options->formats, "Formats: fp16,bf16,int8,fp8_e4m3,fp8_e5m2,int4 (default: all)");
  command->add_option("--batch", sizes.batch, "Sequences (default: 1)");
  command->add_option("--tokens", sizes.tokens, "Tokens of a sequence (default: 512)");
  command->add_option("--kv-heads", sizes.kv_heads, "KV heads (default: 2)");
  command->add_option("--heads-per-kv", sizes.heads_per_kv, "Query heads that share a KV head (default: 4)");
  command->add_option("--head-dim", sizes.head_dim, "Channels of a head (default: 128)");
  command->add_option("--outliers", sizes.outliers,
                      "Factor of 4 outlier channels of each head's keys; 1: none (default: 8)");
  command->add_option("--seed", sizes.seed, "Seed of the made-up values (default: 1)");
  command->add_option("--input", options->input, "Read query, key and value from this safetensors file");
  command->add_option("--device", options->device.device, "Where to run: cuda:0, …, or cpu (default: a GPU, else cpu)");
  command->add_option("--arch", options->device.architectures,
                      "The architecture to compile for (default: the device's architecture)");
  command->add_option("--json", options->json, "Write JSON to this file; without a file, print it")->expected(0, 1);
  command->add_option("--picture", options->picture, "Write the errors over the bytes per token to this SVG file");
  command->footer(kExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return study_kv(*options, context); }; });
}

}  // namespace cubit::tools
