// Proves: an unexpected NULL gives one clear sentence that names function and parameter, and never a crash.
#include <cubit/check.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Case {
  std::string sentence;  ///< the start of the error text
  std::function<cubit_status()> call;
};

/// A pointer that is not NULL. The functions below must refuse before they dereference it.
template <class T>
T* anything() {
  alignas(64) static char bytes[1024];
  return reinterpret_cast<T*>(bytes);
}

const char* g_text = nullptr;
void* g_memory = nullptr;
size_t g_size = 0;

std::vector<Case> catalogue_cases() {
  return {
      {"cubit_operators: json", [] { return cubit_operators(nullptr); }},
      {"cubit_check_operators: json", [] { return cubit_check_operators(nullptr); }},
      {"cubit_architectures: json", [] { return cubit_architectures(nullptr); }},
      {"cubit_devices: json", [] { return cubit_devices(nullptr); }},
      {"cubit_descriptor_canonical: descriptor", [] { return cubit_descriptor_canonical(nullptr, &g_text); }},
      {"cubit_descriptor_canonical: text", [] { return cubit_descriptor_canonical("stream_read", nullptr); }},
      {"cubit_descriptor_arguments: descriptor", [] { return cubit_descriptor_arguments(nullptr, &g_text); }},
      {"cubit_descriptor_arguments: json", [] { return cubit_descriptor_arguments("stream_read", nullptr); }},
      {"cubit_descriptor_members: descriptor", [] { return cubit_descriptor_members(nullptr, "sm_80", &g_text); }},
      {"cubit_descriptor_members: architecture",
       [] { return cubit_descriptor_members("stream_read", nullptr, &g_text); }},
      {"cubit_descriptor_members: json", [] { return cubit_descriptor_members("stream_read", "sm_80", nullptr); }},
      {"cubit_add_score: name", [] { return cubit_add_score(nullptr, "modify_score", &g_text); }},
      {"cubit_add_score: text", [] { return cubit_add_score("name", nullptr, &g_text); }},
      {"cubit_add_score: field", [] { return cubit_add_score("name", "modify_score", nullptr); }},
      {"cubit_suggest: descriptor", [] { return cubit_suggest(nullptr, nullptr, 0, "sm_80", 108, 0, &g_text); }},
      {"cubit_suggest: architecture",
       [] { return cubit_suggest("stream_read", nullptr, 0, nullptr, 108, 0, &g_text); }},
      {"cubit_suggest: text", [] { return cubit_suggest("stream_read", nullptr, 0, "sm_80", 108, 0, nullptr); }},
      {"cubit_suggest: sizes", [] { return cubit_suggest("stream_read", nullptr, 1, "sm_80", 108, 0, &g_text); }},
      {"cubit_explain: descriptor", [] { return cubit_explain(nullptr, "sm_80", &g_text); }},
      {"cubit_explain: architecture", [] { return cubit_explain("stream_read", nullptr, &g_text); }},
      {"cubit_explain: json", [] { return cubit_explain("stream_read", "sm_80", nullptr); }},
      {"cubit_explain_layouts: descriptor", [] { return cubit_explain_layouts(nullptr, "sm_80", &g_text); }},
      {"cubit_explain_layouts: architecture", [] { return cubit_explain_layouts("stream_read", nullptr, &g_text); }},
      {"cubit_explain_layouts: json", [] { return cubit_explain_layouts("stream_read", "sm_80", nullptr); }},
  };
}

std::vector<Case> device_cases() {
  return {
      {"cubit_device_open: name", [] { return cubit_device_open(nullptr, anything<cubit_device*>()); }},
      {"cubit_device_open: device", [] { return cubit_device_open("cuda:0", nullptr); }},
      {"cubit_device_describe: device", [] { return cubit_device_describe(nullptr, &g_text); }},
      {"cubit_device_allocate: device", [] { return cubit_device_allocate(nullptr, 1, &g_memory); }},
      {"cubit_device_free: device", [] { return cubit_device_free(nullptr, nullptr); }},
      {"cubit_device_fill_zero: device", [] { return cubit_device_fill_zero(nullptr, nullptr, 0, nullptr); }},
      {"cubit_device_upload: device", [] { return cubit_device_upload(nullptr, nullptr, nullptr, 0, nullptr); }},
      {"cubit_device_download: device", [] { return cubit_device_download(nullptr, nullptr, nullptr, 0, nullptr); }},
      {"cubit_device_synchronise: device", [] { return cubit_device_synchronise(nullptr, nullptr); }},
      {"cubit_stream_create: device", [] { return cubit_stream_create(nullptr, &g_memory); }},
      {"cubit_stream_destroy: device", [] { return cubit_stream_destroy(nullptr, nullptr); }},
      {"cubit_capture_begin: device", [] { return cubit_capture_begin(nullptr, nullptr); }},
      {"cubit_capture_end: device", [] { return cubit_capture_end(nullptr, nullptr, nullptr); }},
      {"cubit_graph_replay: device", [] { return cubit_graph_replay(nullptr, nullptr, nullptr, nullptr); }},
  };
}

std::vector<Case> engine_cases() {
  return {
      {"cubit_engine_create: engine", [] { return cubit_engine_create(nullptr, nullptr); }},
      {"cubit_engine_explain_miss: engine",
       [] { return cubit_engine_explain_miss(nullptr, "stream_read", "sm_80", &g_text); }},
      {"cubit_engine_explain_miss: descriptor",
       [] { return cubit_engine_explain_miss(anything<cubit_engine>(), nullptr, "sm_80", &g_text); }},
      {"cubit_engine_explain_miss: json",
       [] { return cubit_engine_explain_miss(anything<cubit_engine>(), "stream_read", "sm_80", nullptr); }},
      {"cubit_engine_counters: engine", [] { return cubit_engine_counters(nullptr, anything<cubit_counters>()); }},
      {"cubit_engine_counters: counters", [] { return cubit_engine_counters(anything<cubit_engine>(), nullptr); }},
      {"cubit_engine_get: engine",
       [] { return cubit_engine_get(nullptr, "stream_read", "sm_80", anything<cubit_kernel*>()); }},
      {"cubit_engine_get: descriptor",
       [] { return cubit_engine_get(anything<cubit_engine>(), nullptr, "sm_80", anything<cubit_kernel*>()); }},
      {"cubit_engine_get: kernel",
       [] { return cubit_engine_get(anything<cubit_engine>(), "stream_read", "sm_80", nullptr); }},
      {"cubit_device_check_workspace: device",
       [] { return cubit_device_check_workspace(nullptr, anything<char>(), nullptr); }},
      {"cubit_engine_warnings: engine", [] { return cubit_engine_warnings(nullptr, anything<const char*>()); }},
      {"cubit_engine_warnings: json", [] { return cubit_engine_warnings(anything<cubit_engine>(), nullptr); }},
      {"cubit_engine_get_source: engine",
       [] { return cubit_engine_get_source(nullptr, anything<cubit_source>(), "sm_80", anything<cubit_kernel*>()); }},
      {"cubit_engine_get_source: source",
       [] { return cubit_engine_get_source(anything<cubit_engine>(), nullptr, "sm_80", anything<cubit_kernel*>()); }},
      {"cubit_engine_get_source: kernel",
       [] { return cubit_engine_get_source(anything<cubit_engine>(), anything<cubit_source>(), "sm_80", nullptr); }},
      {"cubit_engine_prepare: engine", [] { return cubit_engine_prepare(nullptr, nullptr, 0, nullptr, 0); }},
      {"cubit_engine_prepare: descriptors",
       [] { return cubit_engine_prepare(anything<cubit_engine>(), nullptr, 1, nullptr, 0); }},
      {"cubit_engine_prepare: a descriptor",
       [] {
         const char* const texts[] = {nullptr};
         return cubit_engine_prepare(anything<cubit_engine>(), texts, 1, nullptr, 0);
       }},
      {"cubit_engine_prepare: devices",
       [] {
         const char* const texts[] = {"stream_read"};
         return cubit_engine_prepare(anything<cubit_engine>(), texts, 1, nullptr, 1);
       }},
      {"cubit_engine_prepare: a device",
       [] {
         const char* const texts[] = {"stream_read"};
         cubit_device* const devices[] = {nullptr};
         return cubit_engine_prepare(anything<cubit_engine>(), texts, 1, devices, 1);
       }},
      {"cubit_cache_list: engine", [] { return cubit_cache_list(nullptr, &g_text); }},
      {"cubit_cache_list: json", [] { return cubit_cache_list(anything<cubit_engine>(), nullptr); }},
      {"cubit_cache_verify: engine", [] { return cubit_cache_verify(nullptr, &g_text); }},
      {"cubit_cache_verify: json", [] { return cubit_cache_verify(anything<cubit_engine>(), nullptr); }},
      {"cubit_engine_stores: engine", [] { return cubit_engine_stores(nullptr, &g_text); }},
      {"cubit_engine_stores: json", [] { return cubit_engine_stores(anything<cubit_engine>(), nullptr); }},
      {"cubit_engine_is_cached: engine",
       [] {
         int cached = 0;
         return cubit_engine_is_cached(nullptr, "stream_read", "sm_80", &cached);
       }},
      {"cubit_engine_is_cached: descriptor",
       [] {
         int cached = 0;
         return cubit_engine_is_cached(anything<cubit_engine>(), nullptr, "sm_80", &cached);
       }},
      {"cubit_engine_is_cached: cached",
       [] { return cubit_engine_is_cached(anything<cubit_engine>(), "stream_read", "sm_80", nullptr); }},
      {"cubit_cache_prune: engine", [] { return cubit_cache_prune(nullptr, 0, 0, &g_text); }},
      {"cubit_cache_prune: json", [] { return cubit_cache_prune(anything<cubit_engine>(), 0, 0, nullptr); }},
      {"cubit_cache_stats: engine", [] { return cubit_cache_stats(nullptr, &g_text); }},
      {"cubit_cache_stats: json", [] { return cubit_cache_stats(anything<cubit_engine>(), nullptr); }},
      {"cubit_cache_add: engine", [] { return cubit_cache_add(nullptr, anything<cubit_kernel>()); }},
      {"cubit_cache_add: kernel", [] { return cubit_cache_add(anything<cubit_engine>(), nullptr); }},
      {"cubit_cache_clear: engine", [] { return cubit_cache_clear(nullptr, &g_size); }},
  };
}

std::vector<Case> kernel_cases() {
  return {
      {"cubit_kernel_describe: kernel", [] { return cubit_kernel_describe(nullptr, &g_text); }},
      {"cubit_kernel_describe: json", [] { return cubit_kernel_describe(anything<cubit_kernel>(), nullptr); }},
      {"cubit_kernel_cubin: kernel", [] { return cubit_kernel_cubin(nullptr, anything<const void*>(), &g_size); }},
      {"cubit_kernel_cubin: bytes", [] { return cubit_kernel_cubin(anything<cubit_kernel>(), nullptr, &g_size); }},
      {"cubit_kernel_cubin: size",
       [] { return cubit_kernel_cubin(anything<cubit_kernel>(), anything<const void*>(), nullptr); }},
      {"cubit_kernel_member_count: kernel", [] { return cubit_kernel_member_count(nullptr, &g_size); }},
      {"cubit_kernel_member_count: count", [] { return cubit_kernel_member_count(anything<cubit_kernel>(), nullptr); }},
      {"cubit_kernel_member: kernel", [] { return cubit_kernel_member(nullptr, 0, anything<cubit_kernel*>()); }},
      {"cubit_kernel_member: member", [] { return cubit_kernel_member(anything<cubit_kernel>(), 0, nullptr); }},
      {"cubit_kernel_choose: kernel", [] { return cubit_kernel_choose(nullptr, g_memory, nullptr, &g_size); }},
      {"cubit_kernel_choose: arguments",
       [] { return cubit_kernel_choose(anything<cubit_kernel>(), nullptr, nullptr, &g_size); }},
      {"cubit_kernel_choose: index",
       [] { return cubit_kernel_choose(anything<cubit_kernel>(), anything<void>(), nullptr, nullptr); }},
      {"cubit_kernel_prepare: kernel", [] { return cubit_kernel_prepare(nullptr, nullptr); }},
      {"cubit_kernel_workspace: kernel",
       [] { return cubit_kernel_workspace(nullptr, anything<char>(), nullptr, &g_size); }},
      {"cubit_kernel_workspace: arguments",
       [] { return cubit_kernel_workspace(anything<cubit_kernel>(), nullptr, nullptr, &g_size); }},
      {"cubit_kernel_workspace: bytes",
       [] { return cubit_kernel_workspace(anything<cubit_kernel>(), anything<char>(), nullptr, nullptr); }},
      {"cubit_kernel_launch: kernel",
       [] { return cubit_kernel_launch(nullptr, anything<char>(), anything<cubit_launch>()); }},
      {"cubit_kernel_launch: arguments",
       [] { return cubit_kernel_launch(anything<cubit_kernel>(), nullptr, anything<cubit_launch>()); }},
      {"cubit_kernel_launch: launch",
       [] { return cubit_kernel_launch(anything<cubit_kernel>(), anything<char>(), nullptr); }},
      {"cubit_kernel_launch_raw: kernel",
       [] { return cubit_kernel_launch_raw(nullptr, nullptr, nullptr, 0, nullptr); }},
      {"cubit_kernel_launch_raw: grid",
       [] { return cubit_kernel_launch_raw(anything<cubit_kernel>(), nullptr, nullptr, 0, nullptr); }},
      {"cubit_kernel_launch_raw: parameters",
       [] { return cubit_kernel_launch_raw(anything<cubit_kernel>(), anything<uint32_t>(), nullptr, 4, nullptr); }},
      {"cubit_kernel_launch_raw: launch",
       [] { return cubit_kernel_launch_raw(anything<cubit_kernel>(), anything<uint32_t>(), nullptr, 0, nullptr); }},
  };
}

std::vector<Case> problem_cases() {
  return {
      {"cubit_problem_create: descriptor",
       [] { return cubit_problem_create(nullptr, nullptr, 0, nullptr, 0, anything<cubit_problem*>()); }},
      {"cubit_problem_create: inputs",
       [] { return cubit_problem_create("stream_read", nullptr, 1, nullptr, 0, anything<cubit_problem*>()); }},
      {"cubit_problem_create: numbers",
       [] { return cubit_problem_create("stream_read", nullptr, 0, nullptr, 1, anything<cubit_problem*>()); }},
      {"cubit_problem_create: problem",
       [] { return cubit_problem_create("stream_read", nullptr, 0, nullptr, 0, nullptr); }},
      {"cubit_problem_fit_descriptor: descriptor",
       [] { return cubit_problem_fit_descriptor(nullptr, nullptr, 0, nullptr, 0, anything<const char*>()); }},
      {"cubit_problem_fit_descriptor: inputs",
       [] { return cubit_problem_fit_descriptor("stream_read", nullptr, 1, nullptr, 0, anything<const char*>()); }},
      {"cubit_problem_fit_descriptor: text",
       [] { return cubit_problem_fit_descriptor("stream_read", nullptr, 0, nullptr, 0, nullptr); }},
      {"cubit_problem_fit_descriptor: numbers",
       [] { return cubit_problem_fit_descriptor("stream_read", nullptr, 0, nullptr, 1, anything<const char*>()); }},
      {"cubit_problem_random: descriptor",
       [] { return cubit_problem_random(nullptr, nullptr, 0, 0, anything<cubit_problem*>()); }},
      {"cubit_problem_random: sizes",
       [] { return cubit_problem_random("stream_read", nullptr, 1, 0, anything<cubit_problem*>()); }},
      {"cubit_problem_random: problem", [] { return cubit_problem_random("stream_read", nullptr, 0, 0, nullptr); }},
      {"cubit_problem_input: problem", [] { return cubit_problem_input(nullptr, 0, anything<cubit_tensor>()); }},
      {"cubit_problem_output: problem", [] { return cubit_problem_output(nullptr, 0, anything<cubit_tensor>()); }},
      {"cubit_problem_operations: problem", [] { return cubit_problem_operations(nullptr, anything<double>()); }},
      {"cubit_problem_operations: operations",
       [] { return cubit_problem_operations(anything<cubit_problem>(), nullptr); }},
      {"cubit_problem_traffic: problem", [] { return cubit_problem_traffic(nullptr, &g_size, &g_size); }},
      {"cubit_problem_arguments: problem",
       [] { return cubit_problem_arguments(nullptr, &g_memory, 1, anything<const void*>(), &g_size); }},
      {"cubit_problem_compare: problem",
       [] { return cubit_problem_compare(nullptr, &g_memory, 1, nullptr, nullptr, nullptr); }},
      {"cubit_problem_describe_launch: problem",
       [] {
         return cubit_problem_describe_launch(nullptr, anything<cubit_kernel>(), anything<cubit_device>(), &g_text);
       }},
      {"cubit_problem_describe_launch: kernel",
       [] {
         return cubit_problem_describe_launch(anything<cubit_problem>(), nullptr, anything<cubit_device>(), &g_text);
       }},
      {"cubit_problem_describe_launch: device",
       [] {
         return cubit_problem_describe_launch(anything<cubit_problem>(), anything<cubit_kernel>(), nullptr, &g_text);
       }},
      {"cubit_problem_describe_launch: json",
       [] {
         return cubit_problem_describe_launch(anything<cubit_problem>(), anything<cubit_kernel>(),
                                              anything<cubit_device>(), nullptr);
       }},
  };
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto group : {&catalogue_cases, &device_cases, &engine_cases, &kernel_cases, &problem_cases}) {
    for (Case& tried : group()) all.push_back(std::move(tried));
  }
  return all;
}

TEST(Null, EveryNeededPointerIsRefusedByName) {
  for (const Case& tried : cases()) {
    EXPECT_EQ(tried.call(), CUBIT_INVALID_ARGUMENT) << tried.sentence;
    const cubit_error& error = *cubit_last_error();
    EXPECT_EQ(error.status, CUBIT_INVALID_ARGUMENT);
    EXPECT_EQ(error.message, tried.sentence + ": NULL was given; pass a valid pointer");
    EXPECT_EQ(error.what, tried.sentence);
  }
}

TEST(Null, ReleasingNothingDoesNothing) {
  cubit_device_release(nullptr);
  cubit_graph_release(nullptr);
  cubit_engine_release(nullptr);
  cubit_kernel_release(nullptr);
  cubit_kernel_retain(nullptr);
  cubit_problem_release(nullptr);
  EXPECT_EQ(cubit_problem_input_count(nullptr), 0U);
  EXPECT_EQ(cubit_problem_output_count(nullptr), 0U);
}

}  // namespace
