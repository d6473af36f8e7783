#include "tools/study/kv/kv_formats.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/options/arguments.hpp"

namespace cubit::tools {
namespace {

constexpr int kGroupUnit = 16;  ///< channels of a group are a multiple of this

bool divides(int head_dim, int groups) { return head_dim % (groups * kGroupUnit) == 0; }

}  // namespace

double KvFormat::largest_code() const {
  if (kv == "fp8_e4m3") return 448;
  if (kv == "fp8_e5m2") return 57344;
  return kv == "int4" ? 7 : 127;
}

std::string KvFormat::name() const { return kv.substr(0, kv.starts_with("int") ? 4 : kv.size()); }

std::string KvFormat::fields() const {
  std::string text = "kv=" + kv;
  if (has_scale_tensors()) text += ",scales=" + scales;
  if (groups > 1) text += fmt::format(",groups={}", groups);
  return text;
}

std::vector<KvFormat> kv_formats(int head_dim) {
  std::vector<KvFormat> formats = {{"fp16", ""}, {"bf16", ""}};
  for (const char* kv : {"int8_split", "fp8_e4m3", "fp8_e5m2"}) {
    for (const char* scales : {"tensor", "token", "head"}) formats.push_back({kv, scales});
    for (const int groups : {2, 4, 8})
      if (divides(head_dim, groups)) formats.push_back({kv, "group", groups});
  }
  for (const int groups : {1, 2, 4, 8})
    if (divides(head_dim, groups)) formats.push_back({"int4_rows", "group", groups});
  formats.push_back({"int8", "channel"});
  formats.push_back({"int4", "channel"});
  return formats;
}

std::vector<KvFormat> chosen_formats(const std::vector<KvFormat>& formats, const std::string& names) {
  if (names.empty()) return formats;
  std::vector<std::string> known;
  for (const KvFormat& format : formats)
    if (std::find(known.begin(), known.end(), format.name()) == known.end()) known.push_back(format.name());
  const std::vector<std::string> wanted = split_list(names, "--formats");
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string all;
    for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
    throw BadInput("--formats " + quote(name), "is no format of a KV cache", "accepted: " + all);
  }
  std::vector<KvFormat> chosen;
  for (const KvFormat& format : formats)
    if (std::find(wanted.begin(), wanted.end(), format.name()) != wanted.end()) chosen.push_back(format);
  return chosen;
}

}  // namespace cubit::tools
