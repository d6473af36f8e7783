// C functions that describe the stores of an engine: counters per store, reasons of misses, and the disk cache.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "capi/border.hpp"
#include "capi/handles.hpp"

namespace cubit::capi {
namespace {

Json entry_json(const runtime::CacheEntry& entry) {
  const runtime::Artifact none;
  const runtime::Artifact& artifact = entry.artifact ? *entry.artifact : none;
  const auto number = [&](std::int64_t of_artifact) {
    return entry.artifact ? ptxas_json(artifact, of_artifact) : Json(nullptr);
  };
  return {{"id", entry.id},
          {"descriptor", artifact.descriptor},
          {"architecture", artifact.target},
          {"compiler", entry.artifact ? artifact.compiler.text() : ""},
          {"bytes", entry.bytes},
          {"registers", number(artifact.resources.registers)},
          {"spill_bytes", number(artifact.resources.spill_bytes())},
          {"damage", entry.damage},
          {"removed", entry.removed}};
}

Json stats_json(const runtime::DiskCache& cache, const runtime::CacheStats& stats) {
  return {{"folder", cache.folder().string()},
          {"readable", cache.readable()},
          {"writable", cache.writable()},
          {"trouble", cache.trouble()},
          {"entries", stats.entries},
          {"bytes", stats.bytes},
          {"removed", stats.removed},
          {"removed_bytes", stats.removed_bytes},
          {"staging_files", stats.staging_files},
          {"lock_files", stats.lock_files},
          {"oldest_use_seconds", stats.oldest_use.count()},
          {"compilers", stats.compilers},
          {"free_bytes", stats.free_bytes},
          {"has_locks", stats.has_locks},
          {"lock_trouble", stats.lock_trouble}};
}

Json cache_json(const runtime::DiskCache& cache, const std::vector<runtime::CacheEntry>& entries) {
  Json list = Json::array();
  for (const runtime::CacheEntry& entry : entries) list.push_back(entry_json(entry));
  return {{"folder", cache.folder().string()},
          {"readable", cache.readable()},
          {"writable", cache.writable()},
          {"trouble", cache.trouble()},
          {"entries", std::move(list)}};
}

Json explanation_json(const std::string& descriptor, const runtime::MissExplanation& explanation) {
  Json nearest = nullptr;
  if (explanation.nearest) {
    nearest = {{"store", explanation.nearest_in},
               {"descriptor", explanation.nearest->descriptor},
               {"architecture", explanation.nearest->target},
               {"compiler", explanation.nearest->compiler.text()},
               {"differences", explanation.differences}};
  }
  Json unused = Json::array();
  for (const runtime::UnusedStore& store : explanation.unused) {
    unused.push_back({{"store", store.name}, {"reason", store.reason}});
  }
  return {{"descriptor", descriptor},
          {"request_key", explanation.key.hex()},
          {"cached_in", explanation.cached_in},
          {"nearest", std::move(nearest)},
          {"unused", std::move(unused)}};
}

}  // namespace
}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

cubit_status cubit_engine_stores(cubit_engine* engine, const char** json) {
  return guarded([&] {
    require(engine, "cubit_engine_stores: engine");
    require(json, "cubit_engine_stores: json");
    Json list = Json::array();
    for (const runtime::StoreReport& report : engine->session.engine().store_reports()) {
      list.push_back({{"kind", report.kind},
                      {"name", report.name},
                      {"trouble", report.trouble},
                      {"readable", report.readable},
                      {"writable", report.writable},
                      {"hits", report.hits},
                      {"misses", report.misses},
                      {"refused", report.refused},
                      {"published", report.published}});
    }
    *json = thread_text(list);
  });
}

cubit_status cubit_engine_explain_miss(cubit_engine* engine, const char* descriptor, const char* architecture,
                                       const char** json) {
  return guarded([&] {
    require(engine, "cubit_engine_explain_miss: engine");
    require(descriptor, "cubit_engine_explain_miss: descriptor");
    require(json, "cubit_engine_explain_miss: json");
    const CodeTarget target = target_of(architecture);
    Json list = Json::array();
    for (const auto& source : ops::Session::sources(descriptor, target.architecture, target.code)) {
      list.push_back(explanation_json(source.descriptor, engine->session.engine().explain_miss(source)));
    }
    *json = thread_text(list);
  });
}

cubit_status cubit_cache_list(cubit_engine* engine, const char** json) {
  return guarded([&] {
    require(engine, "cubit_cache_list: engine");
    require(json, "cubit_cache_list: json");
    const runtime::DiskCache& cache = engine->session.engine().disk_cache();
    *json = thread_text(cache_json(cache, cache.list()));
  });
}

cubit_status cubit_cache_verify(cubit_engine* engine, const char** json) {
  return guarded([&] {
    require(engine, "cubit_cache_verify: engine");
    require(json, "cubit_cache_verify: json");
    const runtime::DiskCache& cache = engine->session.engine().disk_cache();
    *json = thread_text(cache_json(cache, cache.remove_damaged()));
  });
}

cubit_status cubit_cache_add(cubit_engine* engine, cubit_kernel* kernel) {
  return guarded([&] {
    require(engine, "cubit_cache_add: engine");
    const ops::OperatorKernel& given = from_handle(kernel, "cubit_cache_add: kernel");
    const runtime::DiskCache& cache = engine->session.engine().disk_cache();
    for (std::size_t i = 0; i < given.member_count(); ++i) {
      const runtime::Artifact& artifact = given.member(i).kernel->artifact();
      if (cache.publish(artifact)) continue;
      throw Failure(Status::io_error, artifact.descriptor,
                    fmt::format("the cache folder \"{}\" did not keep it: {}", cache.folder().string(),
                                cache.trouble().empty() ? "see the engine's log" : cache.trouble()),
                    "give a folder that can be written");
    }
    cache.prune_if_due();
  });
}

cubit_status cubit_cache_prune(cubit_engine* engine, uint64_t max_bytes, unsigned max_days, const char** json) {
  return guarded([&] {
    require(engine, "cubit_cache_prune: engine");
    require(json, "cubit_cache_prune: json");
    const runtime::DiskCache& cache = engine->session.engine().disk_cache();
    *json = thread_text(stats_json(cache, cache.prune({max_bytes, std::chrono::days(max_days)})));
  });
}

cubit_status cubit_cache_stats(cubit_engine* engine, const char** json) {
  return guarded([&] {
    require(engine, "cubit_cache_stats: engine");
    require(json, "cubit_cache_stats: json");
    const runtime::DiskCache& cache = engine->session.engine().disk_cache();
    *json = thread_text(stats_json(cache, cache.stats()));
  });
}

cubit_status cubit_cache_clear(cubit_engine* engine, size_t* removed) {
  return guarded([&] {
    require(engine, "cubit_cache_clear: engine");
    const std::size_t count = engine->session.engine().disk_cache().clear();
    if (removed != nullptr) *removed = count;
  });
}
