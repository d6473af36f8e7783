/* cubit: CUDA kernels in exactly the shape you ask for. The C surface; <cubit/cubit.hpp> is the C++ layer over it.
 *
 * Conventions
 *   - Every function that can fail returns a cubit_status; cubit_last_error() has this thread's text of the last
 * failure.
 *   - Handles are opaque and counted or owned as stated; passing NULL to a *_release function does nothing. Any other
 *     pointer may be NULL only where it says so; otherwise NULL is CUBIT_INVALID_ARGUMENT.
 *   - Structs that may grow start with `size`, set by the caller to sizeof the struct it was compiled with.
 *   - Strings are UTF-8. A `const char**` result is owned by the library and lives until the next call on this thread
 *     that returns a string, or as long as the handle it came from, as stated.
 *   - Sizes are in bytes, strides in elements, times in milliseconds.
 *   - All functions are thread-safe; one handle may be used by several threads unless stated otherwise.
 *   - A release is the last use of its handle: to release one twice (a counted one more often than it was got or
 *     retained), to use it afterwards, or to release it while another thread is inside a call with it is undefined.
 *     A log function is inside such a call: it may ask its engine for anything, also for the kernel that its line is
 *     about, but not release it. A line may be about another thread's request.
 */
#ifndef CUBIT_CUBIT_H
#define CUBIT_CUBIT_H

#include <stddef.h>
#include <stdint.h>

#define CUBIT_VERSION_MAJOR 0
#define CUBIT_VERSION_MINOR 1
#define CUBIT_VERSION_PATCH 0

#if defined(__GNUC__)
#define CUBIT_API __attribute__((visibility("default")))
#else
#define CUBIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------------------------- */

typedef enum cubit_status {
  CUBIT_OK = 0,
  CUBIT_INVALID_ARGUMENT = 1,     /* the caller gave something that no version of cubit accepts */
  CUBIT_UNSUPPORTED = 2,          /* well formed, but this operator or architecture has no kernel for it */
  CUBIT_NOT_CACHED = 3,           /* the engine may not compile, and no cache holds the kernel */
  CUBIT_COMPILE_FAILED = 4,       /* the compiler rejected the source; the text carries its log */
  CUBIT_COMPILER_UNAVAILABLE = 5, /* no usable NVRTC on this machine */
  CUBIT_DRIVER_UNAVAILABLE = 6,   /* no CUDA driver, or no device */
  CUBIT_DEVICE_ERROR = 7,         /* the driver reported an error */
  CUBIT_NOT_RESIDENT = 8,         /* a launch during capture of a kernel that was not prepared */
  CUBIT_IO_ERROR = 9,             /* a file or folder could not be read or written */
  CUBIT_INTERNAL = 10             /* a bug of cubit's */
} cubit_status;

/* Three parts of one sentence, "<what>: <why>; <remedy>". Never NULL; valid until this thread's next failing call. */
typedef struct cubit_error {
  cubit_status status;
  const char* message; /* the whole sentence */
  const char* what;    /* what was given */
  const char* why;     /* the rule it breaks */
  const char* remedy;  /* what would be accepted; may be "" */
} cubit_error;

CUBIT_API const cubit_error* cubit_last_error(void);

/* major * 10000 + minor * 100 + patch of the library at run time. */
CUBIT_API int cubit_version(void);

/* ---- what there is (JSON text, owned by the library until this thread's next string result) -------------------- */

/* [{name, summary, fields: [{name, accepts, default, meaning}], tensors, random, suggest, bench: [{group, name,
 * descriptor, sizes, target_microseconds, target_share, comparable}], decompositions: [{name, numbers, fields}]}].
 * `decompositions`: ways to share a launch's work, the launch arguments that ask for each, and the fields that a
 * descriptor needs for it; `comparable`: whether a case takes part in comparing them. `bench`: the operator's
 * benchmark; sizes are those of made-up data, targets null where there is none, microseconds of an NVIDIA H200 and
 * shares of the read floor in the same run. */
CUBIT_API cubit_status cubit_operators(const char** json);
/* [{name, capability, usual, shared_memory_per_sm, …}] in ascending order; `usual`: one of those to compile for where
 * nothing says what will run the kernels. */
CUBIT_API cubit_status cubit_architectures(const char** json);
/* {devices: [{name: "cuda:0", description, architecture, multiprocessors, memory_bytes, l2_bytes, clock_khz,
 *  tensor_operations_per_second, memory_bytes_per_second, driver_version}], trouble: "" or why there are none, cpu:
 *  {name: "cpu:sm_80", trouble}}. `devices` are GPUs. `cpu` is the CPU device under the name of one of the
 * architectures that it executes, which are all; its trouble is "" or why there is none. To know, the call opens
 * libcubit_cpu. */
CUBIT_API cubit_status cubit_devices(const char** json);

/* The canonical text of a descriptor: fields in order, defaults left out. */
CUBIT_API cubit_status cubit_descriptor_canonical(const char* descriptor, const char** text);

typedef struct cubit_number {
  const char* name; /* "softmax_scale", "batch" */
  double value;
} cubit_number;

/* The canonical text of a descriptor for launches of known sizes on a device of `architecture` with so many
 * `multiprocessors` and a memory of `memory_bytes_per_second`, as cubit_devices lists them (0: not known, and taken for
 * an H200's): fields that decide how fast a kernel is, and not what it computes, as they should be fastest by a model
 * of an H200. Which ones, and by which sizes, is what the operator's `suggest` in cubit_operators says; "" there: none,
 * and the text is the canonical one. Needs neither compiler nor device. `sizes` may be NULL if size_count is 0; `text`
 * is owned by the library until this thread's next string result. CUBIT_INVALID_ARGUMENT for a size that is not known,
 * missing or not legal, CUBIT_UNSUPPORTED where the architecture has no kernel. */
CUBIT_API cubit_status cubit_suggest(const char* descriptor, const cubit_number* sizes, size_t size_count,
                                     const char* architecture, int multiprocessors, int64_t memory_bytes_per_second,
                                     const char** text);

/* Adds a user's score modification to this process, for descriptors with a field `score`: its text, of up to 64 KiB,
 * defines
 *
 *   __device__ float modify_score(float score, const cubit::ScorePlace& place, const void* parameters)
 *
 * and may include cubit's device headers; see templates/attention/score_user.cuh and score_steps.cuh. `field` is "<name>@<hash of
 * the text>", which the descriptor is given as score=…: kept as long as the process lives, found by the same text under
 * the same name at any time. `name` is an identifier of up to 64 characters; compile errors name the text
 * user/<name>.cuh, with its own lines. */
CUBIT_API cubit_status cubit_add_score(const char* name, const char* text, const char** field);

/* The plan of a descriptor for one architecture: {descriptor, architecture, family, decisions: [{name, value, why}],
 * proofs: [{access, degree, wavefronts, ideal, places}], fragments: [], rejections: [{family, why}],
 * spills_allowed_because, request_key, template, plan_header, threads, dynamic_shared_memory}. Needs neither compiler
 * nor device. */
CUBIT_API cubit_status cubit_explain(const char* descriptor, const char* architecture, const char** json);

/* What pictures of that plan are drawn from: {fragments: [{name, section, rows, columns, element_bits, elements}],
 * tiles: [{name, layout, rows, row_bytes, pitch, bytes, words, accesses: [{name, kind, bytes_per_lane, lanes_per_phase,
 * degree, wavefronts, ideal, addresses}]}], memory: {bytes, regions: [{phase, owner, name, offset, bytes}]}}.
 * elements[lane][value] is [row, column]. words[row][i] is the address in the tile of bytes 4i … 4i + 3 of that row;
 * addresses[instance][lane] that of the first byte which the lane touches, or null if it takes no part; ldmatrix and
 * stmatrix touch the 16 bytes that each lane points at. */
CUBIT_API cubit_status cubit_explain_layouts(const char* descriptor, const char* architecture, const char** json);

/* ---- devices: memory, streams and graphs for programs that have no CUDA runtime of their own --------------------- */

typedef struct cubit_device cubit_device; /* owned */
typedef struct cubit_graph cubit_graph;   /* owned */
typedef void* cubit_stream;               /* a CUstream (cudaStream_t); NULL is the legacy default stream */

/* "cuda:0" … Retains the device's primary context; makes nothing current. The functions below that take a cubit_device
 * make its context current for the call and restore the caller's.
 * "cpu:sm_80", with any architecture: the CPU device, which executes that architecture's PTX on this machine's
 * processor. Its memory is host memory and its calls return when they are done. It needs libcubit_cpu beside
 * libcubit. */
CUBIT_API cubit_status cubit_device_open(const char* name, cubit_device** device);
/* After its memory, streams and graphs: with the last holder of a primary context they would go too. */
CUBIT_API void cubit_device_release(cubit_device* device);
/* {name, description, architecture, …} as in cubit_devices. */
CUBIT_API cubit_status cubit_device_describe(cubit_device* device, const char** json);

/* The caller's until cubit_device_free; 0 bytes give NULL, and NULL may be freed. A CPU device's kernels may touch
 * nothing else, and what they have not written is NaN; it refuses to free what it did not allocate, or freed before. */
CUBIT_API cubit_status cubit_device_allocate(cubit_device* device, size_t bytes, void** memory);
CUBIT_API cubit_status cubit_device_free(cubit_device* device, void* memory);
CUBIT_API cubit_status cubit_device_fill_zero(cubit_device* device, void* memory, size_t bytes, cubit_stream stream);
/* Copies are ordered by `stream` and may return before they are done: the host memory must stay as it is until
 * cubit_device_synchronise (or the caller's own wait for the stream) has returned. Neither pointer may be NULL unless
 * `bytes` is 0. */
CUBIT_API cubit_status cubit_device_upload(cubit_device* device, void* dst, const void* src, size_t bytes,
                                           cubit_stream stream);
CUBIT_API cubit_status cubit_device_download(cubit_device* device, void* dst, const void* src, size_t bytes,
                                             cubit_stream stream);
CUBIT_API cubit_status cubit_device_synchronise(cubit_device* device, cubit_stream stream);
/* What the launches from now on are watched for, added up; 0 at first. Only CPU devices can watch. Watched memory: a
 * race between warps and a read of memory that nobody wrote are device errors; what of global memory was written is
 * known for memory that is allocated while this is on. Counters: see cubit_device_counters. */
#define CUBIT_WATCH_MEMORY 1u
#define CUBIT_WATCH_COUNTERS 2u
CUBIT_API cubit_status cubit_device_watch(cubit_device* device, unsigned what);
/* The watched launches since the last call, in order: [{kernel, blocks, warps, barriers, instructions: {"ld.global":
 * n}, shared: [{opcode, ptx_line, places, requests, wavefronts, ideal_wavefronts}], global: [{opcode, ptx_line, places,
 * requests, sectors, ideal_sectors}]}]. Instructions are counted per warp, requests per instruction of a warp; `places`
 * are "file:line", from the innermost inlined function outwards. */
CUBIT_API cubit_status cubit_device_counters(cubit_device* device, const char** json);
/* Made non-blocking: it does not wait for the legacy default stream, nor that for it. The caller's until
 * cubit_stream_destroy, which takes NULL. Where a function takes a stream, NULL is the legacy default stream; only a
 * capture needs one that was made. */
CUBIT_API cubit_status cubit_stream_create(cubit_device* device, cubit_stream* stream);
CUBIT_API cubit_status cubit_stream_destroy(cubit_device* device, cubit_stream stream);
CUBIT_API cubit_status cubit_capture_begin(cubit_device* device, cubit_stream stream);
CUBIT_API cubit_status cubit_capture_end(cubit_device* device, cubit_stream stream, cubit_graph** graph);
/* Replays on `stream`, waits for it, and gives the milliseconds between events around the replay; `milliseconds` may be
 * NULL. `device` is the one that captured the graph. */
CUBIT_API cubit_status cubit_graph_replay(cubit_device* device, cubit_graph* graph, cubit_stream stream,
                                          double* milliseconds);
CUBIT_API void cubit_graph_release(cubit_graph* graph);

/* ---- engine --------------------------------------------------------------------------------------------------- */

typedef struct cubit_engine cubit_engine; /* owned */
typedef struct cubit_kernel cubit_kernel; /* counted; outlives its engine */

typedef enum cubit_log_level {
  CUBIT_LOG_DEBUG = 0,
  CUBIT_LOG_INFO = 1,
  CUBIT_LOG_WARNING = 2,
  CUBIT_LOG_ERROR = 3
} cubit_log_level;

/* Called on whichever thread has something to say, also on several at once: guard what is shared. `line` ends without a
 * newline and lives until the function returns: copy it to keep it. No lock of cubit's is held, so the function may
 * call cubit with the same engine; an exception that leaves it is dropped. */
typedef void (*cubit_log_function)(void* context, cubit_log_level level, const char* line);

typedef enum cubit_compile_policy {
  CUBIT_COMPILE_FROM_ENVIRONMENT = 0, /* CUBIT_COMPILE=never forbids it, allow or none allows it; not read else */
  CUBIT_COMPILE_ALLOW = 1,
  CUBIT_COMPILE_NEVER = 2
} cubit_compile_policy;

typedef struct cubit_engine_options {
  size_t size;
  const char* cache_dir;  /* NULL: CUBIT_CACHE_DIR, else $XDG_CACHE_HOME/cubit, else ~/.cache/cubit; "": none */
  const char* nvrtc_path; /* NULL: CUBIT_NVRTC, else searched */
  cubit_compile_policy compile;
  cubit_log_function log; /* NULL: lines are dropped */
  void* log_context;      /* handed to `log`; both are used until the engine is released and its calls have returned */
} cubit_engine_options;

/* `options` may be NULL. Never fails for an unusable cache folder: that is one warning and no disk cache. */
CUBIT_API cubit_status cubit_engine_create(const cubit_engine_options* options, cubit_engine** engine);
CUBIT_API void cubit_engine_release(cubit_engine* engine);

typedef struct cubit_counters {
  size_t size;
  uint64_t memory_hits;
  uint64_t disk_hits;
  uint64_t compiles;
  uint64_t failures;
  uint64_t waits;           /* requests that shared another thread's compile */
  uint64_t damaged_entries; /* disk entries deleted */
} cubit_counters;

CUBIT_API cubit_status cubit_engine_counters(cubit_engine* engine, cubit_counters* counters);

/* The kernel of `descriptor` for `architecture` ("sm_90a"; "cpu:sm_90a" for the CPU device of that name; NULL: that of
 * the current CUDA context's device).
 * Memory, then disk, then NVRTC. Touches no stream and loads nothing onto a device. Release the kernel. On failure
 * *kernel is NULL. */
CUBIT_API cubit_status cubit_engine_get(cubit_engine* engine, const char* descriptor, const char* architecture,
                                        cubit_kernel** kernel);

/* A user's own kernel. Header names are as written in #include "…"; cubit's device headers are available by name. */
typedef struct cubit_header {
  const char* name;
  const char* text;
} cubit_header;

typedef struct cubit_source {
  size_t size;
  const char* name;          /* for messages: "scale_and_add:columns=4096" */
  const char* template_name; /* "scale_and_add.cuh" */
  const char* template_text;
  const char* plan_header;     /* text of "plan.cuh", or NULL if the template includes none */
  const cubit_header* headers; /* NULL if there are none; all texts are read during the call only */
  size_t header_count;
  const char* entry_point;   /* an extern "C" __global__ function */
  int threads;               /* per block */
  int dynamic_shared_memory; /* bytes */
} cubit_source;

CUBIT_API cubit_status cubit_engine_get_source(cubit_engine* engine, const cubit_source* source,
                                               const char* architecture, cubit_kernel** kernel);

/* Gets every descriptor for every device's architecture, loads it there and resolves its function, so that launches
 * never load and may be captured. device_count 0: the device of the current CUDA context. */
CUBIT_API cubit_status cubit_engine_prepare(cubit_engine* engine, const char* const* descriptors,
                                            size_t descriptor_count, cubit_device* const* devices, size_t device_count);

/* ---- disk cache ----------------------------------------------------------------------------------------------- */

/* {folder, readable, writable, trouble, entries: [{id, descriptor, architecture, compiler, bytes, registers,
 *  spill_bytes, damage, removed}]} ; damage is "" for a good entry, and removed is false. registers and spill_bytes are
 * null for PTX, which CPU devices execute, and for an entry that is not good, whose descriptor, architecture and
 * compiler are "". */
CUBIT_API cubit_status cubit_cache_list(cubit_engine* engine, const char** json);
/* As cubit_cache_list, of the entries that are not good. A damaged one is deleted: `removed` says whether that worked.
 * One that cannot be read now (too many open files, a failing disk) may be good and stays. */
CUBIT_API cubit_status cubit_cache_verify(cubit_engine* engine, const char** json);
/* Deletes every entry; `removed` may be NULL and gets how many went. */
CUBIT_API cubit_status cubit_cache_clear(cubit_engine* engine, size_t* removed);

/* ---- kernels -------------------------------------------------------------------------------------------------- */

/* {descriptor, architecture, request_key, artifact_id, compiler, registers, spill_bytes, stack_bytes, threads,
 *  static_shared_memory, dynamic_shared_memory, cubin_bytes, compile_milliseconds}. Of a CPU device's kernel, which is
 * PTX and has not been through ptxas, registers, spill_bytes, stack_bytes and static_shared_memory are null. Valid
 * until this thread's next string. */
CUBIT_API cubit_status cubit_kernel_describe(cubit_kernel* kernel, const char** json);
CUBIT_API void cubit_kernel_retain(cubit_kernel* kernel);
/* Keep a kernel while launches of it are in flight and as long as graphs that hold them: its code leaves the device
 * with its last handle, unless an engine that gave it is alive. */
CUBIT_API void cubit_kernel_release(cubit_kernel* kernel);
/* The kernel's code, an ELF file, or the PTX text of a CPU device's kernel. Lives as long as the kernel. */
CUBIT_API cubit_status cubit_kernel_cubin(cubit_kernel* kernel, const void** bytes, size_t* size);
/* Loads the kernel on `device` (NULL: the current CUDA context's). Allowed while streams are captured. */
CUBIT_API cubit_status cubit_kernel_prepare(cubit_kernel* kernel, cubit_device* device);

/* Of a workspace only these bytes at its beginning, counters, have to be zero before its first use, and launches leave
 * them so; the rest may hold anything. */
#define CUBIT_WORKSPACE_ZEROED_BYTES 16384

/* Where and with what a launch runs. */
typedef struct cubit_launch {
  size_t size;
  cubit_device* device; /* its context is current for the call; NULL: the context that is current on this thread */
  cubit_stream stream;
  void* workspace; /* device memory, 256-byte aligned, zeroed once before its first use; one per launch in flight */
  size_t workspace_bytes;
  /* 1: the kernel may start while the one before it in the stream still runs ("programmatic dependent launch"): it sets
   * up, then waits until the other has finished before it touches memory. Where its blocks do not
   * fill the device, they ask for as much shared memory as spreads them evenly. Nothing else changes: kernels that
   * cannot, and devices before sm_90, start in order. */
  int overlap;
} cubit_launch;

/* `arguments` is the operator's public struct, e.g. cubit_gqa_decode_arguments of <cubit/gqa_decode.h>; it is read
 * during the call only. `device`: NULL is the current CUDA context's. */
CUBIT_API cubit_status cubit_kernel_workspace(cubit_kernel* kernel, const void* arguments, cubit_device* device,
                                              size_t* bytes);
/* Stream-ordered, capture-safe once the kernel is resident, allocation-free but for a thread's first. A thread
 * remembers a few hundred of the launches that it has made twice: one with the same kernel, device, workspace and
 * arguments, byte for byte with their padding, is not made anew. */
CUBIT_API cubit_status cubit_kernel_launch(cubit_kernel* kernel, const void* arguments, const cubit_launch* launch);
/* For kernels from cubit_engine_get_source: `parameters` is the kernel's single by-value argument, read during the call
 * only; NULL if `parameter_bytes` is 0. */
CUBIT_API cubit_status cubit_kernel_launch_raw(cubit_kernel* kernel, const uint32_t grid[3], const void* parameters,
                                               size_t parameter_bytes, const cubit_launch* launch);

/* ---- problems: one concrete case by named tensors, for tools and tests ------------------------------------------- */

typedef struct cubit_problem cubit_problem; /* owned */

typedef struct cubit_tensor {
  const char* name;
  const char* type; /* as safetensors spells it: "BF16", "F16", "F32", "U8", "I32" */
  int rank;
  int64_t shape[8];
  void* data; /* dense, row-major, host memory; of an output what it holds before a launch that changes it in part, or
                 NULL */
} cubit_tensor;

/* Copies the inputs and checks names, types and shapes against the descriptor. `inputs` and `numbers` may be NULL if
 * their counts are 0. */
CUBIT_API cubit_status cubit_problem_create(const char* descriptor, const cubit_tensor* inputs, size_t input_count,
                                            const cubit_number* numbers, size_t number_count, cubit_problem** problem);
/* Made-up data from sizes such as {"batch", 4}; the same seed gives the same bytes. */
CUBIT_API cubit_status cubit_problem_random(const char* descriptor, const cubit_number* sizes, size_t size_count,
                                            uint64_t seed, cubit_problem** problem);
CUBIT_API void cubit_problem_release(cubit_problem* problem);
CUBIT_API size_t cubit_problem_input_count(const cubit_problem* problem);
CUBIT_API size_t cubit_problem_output_count(const cubit_problem* problem);
/* Strings and data stay valid while the problem lives. */
CUBIT_API cubit_status cubit_problem_input(const cubit_problem* problem, size_t index, cubit_tensor* tensor);
CUBIT_API cubit_status cubit_problem_output(const cubit_problem* problem, size_t index, cubit_tensor* tensor);
/* Bytes that any implementation must read and write. */
CUBIT_API cubit_status cubit_problem_traffic(const cubit_problem* problem, size_t* bytes_read, size_t* bytes_written);
/* Multiplications and additions that any implementation must do, each counted. */
CUBIT_API cubit_status cubit_problem_operations(const cubit_problem* problem, double* operations);
/* The operator's argument struct for tensors at these device addresses (inputs, then outputs). The result lives until
 * this thread's next call of this function; `bytes` may be NULL. */
CUBIT_API cubit_status cubit_problem_arguments(const cubit_problem* problem, void* const* device_data, size_t count,
                                               const void** arguments, size_t* bytes);
/* Against the double-precision reference: of all places the one whose error is the largest share of its tolerance: that
 * error, that tolerance, where it is. Each of the three may be NULL; `worst` lives until this thread's next string. */
CUBIT_API cubit_status cubit_problem_compare(const cubit_problem* problem, const void* const* outputs, size_t count,
                                             double* error, double* tolerance, const char** worst);

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_CUBIT_H */
