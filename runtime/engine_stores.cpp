// Opens and describes the stores of an engine. Explains a miss: finds the stored entry that is nearest to a request,
// and says which inputs of the compiler differ.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/bundle/bundle_store.hpp"
#include "runtime/engine.hpp"

namespace cubit::runtime {
namespace {

/// The content of each input by the input's name, both as digests.
using Contents = std::map<std::uint32_t, std::uint32_t>;

Contents contents_of(const std::vector<InputDigest>& inputs) {
  Contents contents;
  for (const InputDigest& input : inputs) contents.emplace(input.name, input.content);
  return contents;
}

bool has_architecture_of(const Artifact& entry, const codegen::KernelSource& source) {
  return entry.target == source.target && entry.code == source.code;
}

/// "sm_90a" for a GPU, "cpu:sm_90a" for the CPU device.
std::string device_name(std::string_view target, codegen::Code code) {
  return fmt::format("{}{}", code == codegen::Code::ptx ? "cpu:" : "", target);
}

/// How near an entry is to a request. An equal key is nearest, then an equal architecture, then an equal descriptor,
/// then the same kind of code, then the number of equal inputs.
std::size_t nearness(const Artifact& entry, const codegen::KernelSource& source, const RequestKey& key,
                     const std::vector<NamedInput>& wanted) {
  constexpr std::size_t kSameKey = 10'000'000;
  constexpr std::size_t kSameArchitecture = 1'000'000;
  constexpr std::size_t kSameDescriptor = 10'000;
  constexpr std::size_t kSameCode = 1'000;  // more than any source has inputs
  const Contents stored = contents_of(entry.inputs);
  const auto equal = std::count_if(wanted.begin(), wanted.end(), [&](const NamedInput& input) {
    const auto found = stored.find(input.digest.name);
    return found != stored.end() && found->second == input.digest.content;
  });
  return static_cast<std::size_t>(equal) + (entry.key == key ? kSameKey : 0) +
         (has_architecture_of(entry, source) ? kSameArchitecture : 0) +
         (entry.descriptor == source.descriptor ? kSameDescriptor : 0) + (entry.code == source.code ? kSameCode : 0);
}

std::vector<std::string> differences_of_inputs(const Artifact& entry, const std::vector<NamedInput>& wanted) {
  if (entry.inputs.empty()) return {"the entry does not record its inputs, because an earlier version stored it"};
  Contents stored = contents_of(entry.inputs);
  std::vector<std::string> differences;
  for (const NamedInput& input : wanted) {
    const auto found = stored.find(input.digest.name);
    if (found == stored.end()) {
      differences.push_back(fmt::format("the entry has no {}", input.name));
      continue;
    }
    if (found->second != input.digest.content) differences.push_back(fmt::format("the text of {} differs", input.name));
    stored.erase(found);
  }
  if (stored.size() == 1) differences.emplace_back("the entry has one input that the request does not have");
  if (stored.size() > 1) {
    differences.push_back(fmt::format("the entry has {} inputs that the request does not have", stored.size()));
  }
  if (differences.empty()) differences.emplace_back("all inputs agree, so another version computed the entry's key");
  return differences;
}

std::vector<std::string> differences_of(const Artifact& entry, const StoreRequest& request,
                                        const codegen::KernelSource& source, const std::vector<NamedInput>& wanted) {
  if (!has_architecture_of(entry, source)) {
    return {fmt::format("the entry is for {}, and no store has an entry for {}", device_name(entry.target, entry.code),
                        device_name(source.target, source.code))};
  }
  if (entry.key != request.key) return differences_of_inputs(entry, wanted);
  if (request.exact && entry.compiler != *request.exact) {
    return {fmt::format("the entry is of NVRTC {}, and the policy exact wants {}", entry.compiler.text(),
                        request.exact->text())};
  }
  if (!request.accepts(entry.compiler)) {
    return {fmt::format("the entry is of NVRTC {}, and the driver loads code of NVRTC {} and older",
                        entry.compiler.text(), request.newest_major)};
  }
  return {"the entry has the right key and compiler, but it is not used; the log says why"};
}

constexpr const char* kOnlySigned = "cache folders are not used, because this engine loads only signed bundles";

}  // namespace

void Engine::open_read_only_stores(const LogSink& keep) {
  const Trust trust = Trust::parse(settings_.cache_trust);
  if (loads_only_signed()) {
    keep(LogLevel::info, kOnlySigned);
  } else {
    for (const std::string& folder : settings_.system_caches) {
      read_only_stores_.push_back(
          std::make_shared<DiskCache>(folder, keep, DiskCacheOptions{.trust = trust, .is_system = true}));
    }
  }
  for (const std::string& file : settings_.bundles) {
    read_only_stores_.push_back(std::make_shared<BundleStore>(file, trust, signers_, keep));
  }
  for (const BundleMemory& memory : settings_.bundle_memory) {
    read_only_stores_.push_back(std::make_shared<BundleStore>(memory, signers_, keep));
  }
  read_only_stores_.insert(read_only_stores_.end(), settings_.stores.begin(), settings_.stores.end());
}

std::vector<StoreReport> Engine::store_reports() const {
  std::vector<StoreReport> reports = {disk_.report()};
  for (const auto& store : read_only_stores_) reports.push_back(store->report());
  return reports;
}

std::vector<UnusedStore> Engine::unused_stores() const {
  std::vector<UnusedStore> unused;
  if (loads_only_signed()) {
    if (!settings_.cache_dir.empty()) unused.push_back({settings_.cache_dir, kOnlySigned});
    for (const std::string& folder : settings_.system_caches) unused.push_back({folder, kOnlySigned});
  }
  for (StoreReport& report : store_reports()) {
    if (report.readable || report.trouble.empty()) continue;
    unused.push_back({std::move(report.name), std::move(report.trouble)});
  }
  return unused;
}

MissExplanation Engine::explain_miss(const codegen::KernelSource& source) {
  const LogQueue::Emission emission(lines_);
  MissExplanation explanation;
  explanation.key = request_key(source);
  StoreRequest request = request_of(source, explanation.key);
  request.leave_as_is = true;
  const std::vector<NamedInput> wanted = named_inputs(source);
  std::vector<const Store*> stores = {&disk_};
  for (const auto& store : read_only_stores_) stores.push_back(store.get());
  std::size_t most = 0;
  for (const Store* store : stores) {
    // find() also verifies the entry, and logs why a damaged entry or one of a stranger does not answer.
    if (store->find(request)) {
      explanation.cached_in = store->report().name;
      explanation.nearest.reset();
      return explanation;
    }
    store->visit([&](const Artifact& entry) {
      const std::size_t near = nearness(entry, source, explanation.key, wanted);
      if (explanation.nearest && near <= most) return;
      most = near;
      explanation.nearest = entry;
      explanation.nearest->cubin.clear();
      explanation.nearest_in = store->report().name;
    });
  }
  explanation.unused = unused_stores();
  if (explanation.nearest) explanation.differences = differences_of(*explanation.nearest, request, source, wanted);
  return explanation;
}

}  // namespace cubit::runtime
