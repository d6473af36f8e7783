/* The C interface of cubit, a library that generates, compiles, caches and launches CUDA kernels from descriptors.
 *
 * A descriptor is text such as "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4": an operator and its fields.
 * <cubit/cubit.hpp> is a header-only C++ layer over this file.
 *
 * Conventions
 *   - Every function that can fail returns a cubit_status. cubit_last_error() describes this thread's last failure.
 *     A successful call leaves the description of the last failure unchanged.
 *   - Handles are opaque. The comment at each handle type says whether a handle has one owner or is counted.
 *   - Passing NULL to a *_release function does nothing. Every other pointer may be NULL only where its comment says
 *     so; an unexpected NULL gives CUBIT_INVALID_ARGUMENT.
 *   - A struct that may grow starts with `size`. The caller sets `size` to the sizeof that its compiler saw. A smaller
 *     `size` comes from an older caller: the missing members are zero, which is their default. A larger `size` is an
 *     error, with one exception: an operator's argument struct may be larger, from a newer caller, if all bytes that
 *     this library does not know are zero and `size` is at most 4096.
 *   - Strings are UTF-8. The library owns every `const char*` result. The comment at each function says whether the
 *     text lives as long as its handle or until this thread's next call that returns a string.
 *   - Sizes are in bytes, strides in elements and times in milliseconds.
 *   - All functions are thread-safe. Several threads may use one handle unless its comment says otherwise.
 *   - A release must be the last use of its handle. Behaviour is undefined if a caller releases a handle twice (or
 *     releases a counted handle more often than it was returned or retained), uses a released handle, or releases a
 *     handle while another thread is inside a call with this handle.
 *   - A log function runs inside a call with its engine. The log function may use that engine, even to request the
 *     kernel that the log line is about, but must not release the engine. A line may concern another thread's request.
 */
#ifndef CUBIT_CUBIT_H
#define CUBIT_CUBIT_H

#include <stddef.h>
#include <stdint.h>

#include <cubit/engine_options.h>
#include <cubit/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operators and architectures (JSON text, owned by the library until this thread's next string result) ------ */
/* Lists all operators as JSON: [{name, summary, fields: [{name, accepts, default, meaning}], tensors, struct: {name,
 * bytes}, arguments: [{name, kind, types, shapes: [{when, shape}], when, optional, default, member, offset, bytes,
 * meaning}], suggest}].
 *
 * `arguments` is the table of the operator's argument struct, and `tensors` is the same table as text. `kind` is
 * "input", "output", "updated" (a tensor that is written in part) or "number". `types` are types of safetensors, or the
 * C type of a number. A shape names its sizes; the first shape whose condition `when` holds counts. The `when` of an
 * argument says which descriptors take the argument. A condition is "" (all descriptors), "cache=paged",
 * "rotary=interleaved|half_split" (one of several values), "score=!none" (any other value), or several conditions
 * separated by commas, which must all hold. `default` is the meaning of an optional argument that is left out.
 * `member`, `offset` and `bytes` describe the member of the struct. `suggest` is a sentence for people: the fields that
 * cubit_suggest chooses, and the sizes that the choice needs.
 *
 * cubit_check_operators in <cubit/check.h> lists the made-up data and the benchmark cases of operators. */
CUBIT_API cubit_status cubit_operators(const char** json);
/* Lists all architectures in ascending order as JSON: [{name, capability, usual, shared_memory_per_sm,
 * shared_memory_per_block, shared_memory_reserved, shared_memory_unit, registers_per_sm, registers_per_thread,
 * threads_per_sm, blocks_per_sm, ldmatrix, movmatrix, stmatrix, cp_async, bulk_copy, cluster_blocks, wgmma,
 * register_transfer, fp8_conversion}].
 *
 * `capability` is the compute capability times 10, such as 90. `usual` marks the architectures to compile for when the
 * target devices are not known. Shared memory is in bytes: a kernel can use at most shared_memory_per_block; the system
 * reserves shared_memory_reserved for each resident block; an allocation is rounded up to a multiple of
 * shared_memory_unit. `cluster_blocks` is the largest cluster, or 0 without clusters. The names of instructions are
 * true if the architecture has the instruction; `bulk_copy` stands for cp.async.bulk and `register_transfer` for
 * setmaxnreg. */
CUBIT_API cubit_status cubit_architectures(const char** json);
/* Lists the devices of this machine as JSON: {devices: [{name: "cuda:0", description, architecture, target,
 * multiprocessors, memory_bytes, l2_bytes, clock_khz, tensor_operations_per_second, memory_bytes_per_second,
 * driver_version}], trouble, cpu: {name: "cpu:sm_80", trouble}}.
 *
 * `devices` holds the GPUs; `trouble` is "" or says why the list is empty. A GPU that cubit cannot use is listed as
 * {name, trouble}. `target` is what to request for the device: "sm_90a", or "cpu:sm_121" for a GPU that is newer than
 * this version of cubit. The driver compiles PTX of `architecture` for such a GPU. `tensor_operations_per_second`
 * counts multiplications plus additions of dense fp16 operands, and is 0 if the rate is not known. `cpu` is the CPU
 * device. The CPU device executes every architecture; its `name` shows one of the accepted names. `cpu.trouble` is ""
 * or says why the CPU device cannot be used. The call opens libcubit_cpu to find out. */
CUBIT_API cubit_status cubit_devices(const char** json);

/* Returns the canonical text of `descriptor`: fields in their fixed order, without fields that have default values. */
CUBIT_API cubit_status cubit_descriptor_canonical(const char* descriptor, const char** text);

/* Returns the arguments that `descriptor` takes, as JSON for bindings to other languages: {descriptor, operator,
 * struct: {name, bytes}, sizes, arguments: [{name, kind, types, shape, strides: [{sizes, offset}], optional, default,
 * usual, offset, bytes, meaning}]}.
 *
 * The list is the table of cubit_operators for one descriptor: arguments that the descriptor does not take are missing,
 * and `types` is the one type that a tensor must have, or all accepted types where the descriptor leaves a choice.
 * `sizes` are the fields whose values are integers. A dimension of `shape` is an expression in sizes of the descriptor,
 * in numbers of the launch and in names that only tensors use: "kv_heads * heads_per_kv", "ceil(k / group_size)".
 * "max_length or more" is a dimension of at least that size, and "rows..." stands for one or more dimensions whose
 * product is `rows`.
 *
 * `strides` lists the dimensions whose stride the struct holds, as int64 at `offset`, in elements of the tensor. Such a
 * dimension is known by a name in its expression, one of `sizes` ("batch|pages"); "first" is the outermost dimension.
 * All other dimensions are contiguous. `usual` is an expression for the value of a number that the caller does not
 * give, or "". */
CUBIT_API cubit_status cubit_descriptor_arguments(const char* descriptor, const char** json);

/* Returns the kernels that `descriptor` names on `architecture` as a JSON array of canonical texts, in a fixed order.
 * Most descriptors name one kernel. A descriptor without tiles, such as "w4a16_gemm:format=awq", names a set of a few
 * kernels, whose texts spell the tiles. Returns CUBIT_UNSUPPORTED if the architecture has no member. */
CUBIT_API cubit_status cubit_descriptor_members(const char* descriptor, const char* architecture, const char** json);

/* A named size or scalar argument. */
typedef struct cubit_number {
  const char* name; /* "softmax_scale", "batch" */
  double value;
} cubit_number;

/* Returns the canonical text of `descriptor` with its performance fields filled in for one launch size: of a set, the
 * member that such a launch takes.
 * Performance fields, such as tile sizes, change the speed of a kernel but not its result. cubit chooses them by a
 * performance model of an H200. `suggest` in cubit_operators names the fields that the operator chooses and the sizes
 * that the choice needs. If `suggest` is "", the result is the canonical text of the unchanged descriptor.
 *
 * `sizes` are the launch sizes; `sizes` may be NULL if size_count is 0. `architecture`, `multiprocessors` (1 to 65536)
 * and `memory_bytes_per_second` describe the device as in cubit_devices. A memory_bytes_per_second of 0 means the
 * bandwidth of an H200. The call needs no compiler and no device. The library owns `text` until this thread's next
 * string result.
 *
 * Returns CUBIT_INVALID_ARGUMENT if a size is unknown, missing or out of range, and CUBIT_UNSUPPORTED if the
 * architecture has no kernel for the descriptor. */
CUBIT_API cubit_status cubit_suggest(const char* descriptor, const cubit_number* sizes, size_t size_count,
                                     const char* architecture, int multiprocessors, int64_t memory_bytes_per_second,
                                     const char** text);

/* Registers a user-defined modification of attention scores for this process. Descriptors with a field `score` can then
 * select the modification.
 *
 * `text` is CUDA C++ of at most 64 KiB that defines
 *
 *   __device__ float modify_score(float score, const cubit::ScorePlace& place, const void* parameters)
 *
 * and may include cubit's device headers; see templates/attention/score_user.cuh and score_steps.cuh. `name` is an
 * identifier of at most 64 characters. The call returns "<name>@<hash of the text>" in `field`; write score=<field> in
 * a descriptor. The registration and the string stay valid until the process ends. Registering the same text under the
 * same name again returns the same field. Compile errors refer to the text as user/<name>.cuh, with the line numbers of
 * `text`. */
CUBIT_API cubit_status cubit_add_score(const char* name, const char* text, const char** field);

/* Returns the plan of a descriptor for one architecture as JSON: {descriptor, architecture, family, decisions: [{name,
 * value, why}], proofs: [{access, degree, wavefronts, ideal, places}], fragments: [name], rejections: [{family, why}],
 * spills_allowed_because, request_key, template, plan_header, threads, dynamic_shared_memory}. The call needs no
 * compiler and no device.
 *
 * A proof counts the bank conflicts of one access to shared memory over all its instances (loop steps). `wavefronts` is
 * the number of passes that the hardware needs, and `ideal` the smallest number that any layout could need. `degree` is
 * wavefronts / ideal of the worst instance, rounded up; 1 means that the access has no conflicts. `places` are the
 * source lines "file:line" that make the access. `fragments` names the register fragments that the kernel uses.
 * `rejections` lists the kernel families that were not chosen, with the reason. `spills_allowed_because` is "" if the
 * kernel must not spill registers. `request_key` is the hash of the compiler's whole input, `template` the file name of
 * the kernel's template, and `plan_header` the text of "plan.cuh".
 *
 * The JSON of a set is {descriptor, architecture, members: [{descriptor, family, request_key, threads,
 * dynamic_shared_memory, serves: [{sizes, launches}]}]}. `serves` lists the launches of a few usual sizes that take the
 * member on 132 multiprocessors, such as "m=1 to 8"; "" means none. */
CUBIT_API cubit_status cubit_explain(const char* descriptor, const char* architecture, const char** json);

/* Returns the register fragments and shared-memory layouts of a plan as JSON, in a form to draw pictures from:
 * {fragments: [{name, section, rows, columns, element_bits, elements}], tiles: [{name, layout, rows, row_bytes, pitch,
 * bytes, words, accesses: [{name, kind, bytes_per_lane, lanes_per_phase, degree, wavefronts, ideal, addresses}]}],
 * memory: {bytes, regions: [{phase, owner, name, offset, bytes}]}}.
 *
 * elements[lane][value] is the [row, column] of a matrix element, and `section` the section of the PTX ISA that defines
 * the fragment. `pitch` is the distance from row to row in bytes. words[row][i] is the byte address, relative to the
 * tile, of bytes 4i … 4i + 3 of that row. `kind` is "load", "store", "ldmatrix" or "stmatrix"; `lanes_per_phase` is the
 * number of lanes that the hardware serves together; cubit_explain explains `degree`, `wavefronts` and `ideal`.
 * addresses[instance][lane] is the address of the first byte that the lane accesses, or null for an inactive lane. For
 * ldmatrix and stmatrix the address is that of the 16-byte row that the lane points at. `memory` is the dynamic shared
 * memory of a block: regions of one `phase` of the kernel do not overlap; `owner` is "block", or a warp such as "warp
 * 0". A set of kernels has no layouts of its own: ask by a member's text. */
CUBIT_API cubit_status cubit_explain_layouts(const char* descriptor, const char* architecture, const char** json);

/* ---- devices: memory, streams and graphs for programs that do not use the CUDA runtime --------------------------- */
typedef struct cubit_device cubit_device; /* one owner */
typedef struct cubit_graph cubit_graph;   /* one owner */
typedef void* cubit_stream;               /* a CUstream (cudaStream_t); NULL is the legacy default stream */

/* Opens a device by name. The caller releases the handle with cubit_device_release.
 *
 * "cuda:0", "cuda:1", … open a GPU. The call retains the device's primary CUDA context and leaves the current context
 * unchanged. Functions that take a cubit_device make the device's context current during the call and restore the
 * caller's context.
 *
 * "cpu:sm_80", or cpu: with any other architecture, opens the CPU device, which executes the PTX of that architecture
 * on this machine's processor. The CPU device uses host memory, and its calls return when their work is complete. The
 * CPU device needs libcubit_cpu in the same folder as libcubit. */
CUBIT_API cubit_status cubit_device_open(const char* name, cubit_device** device);
/* Release a device after its memory, streams and graphs. The release of a primary context's last holder destroys the
 * context and everything in it. */
CUBIT_API void cubit_device_release(cubit_device* device);
/* Returns {name, description, architecture, …} as JSON, with the fields of cubit_devices. */
CUBIT_API cubit_status cubit_device_describe(cubit_device* device, const char** json);

/* Allocates `bytes` of device memory that the caller frees with cubit_device_free. An allocation of 0 bytes returns
 * NULL, and cubit_device_free accepts NULL.
 * Free memory only when all work that uses the memory is complete. On a CPU device, kernels may access only memory from
 * this function, and memory that nothing has written reads as NaN. A CPU device refuses to free memory that it did not
 * allocate or that was freed before. */
CUBIT_API cubit_status cubit_device_allocate(cubit_device* device, size_t bytes, void** memory);
CUBIT_API cubit_status cubit_device_free(cubit_device* device, void* memory);
/* Sets `bytes` bytes to zero, in the order of `stream`. */
CUBIT_API cubit_status cubit_device_fill_zero(cubit_device* device, void* memory, size_t bytes, cubit_stream stream);
/* Copies are asynchronous and ordered by `stream`. The caller must keep the host memory valid, and must not modify it,
 * until cubit_device_synchronise or the caller's own wait for the stream has returned. Neither pointer may be NULL
 * unless `bytes` is 0. */
CUBIT_API cubit_status cubit_device_upload(cubit_device* device, void* dst, const void* src, size_t bytes,
                                           cubit_stream stream);
CUBIT_API cubit_status cubit_device_download(cubit_device* device, void* dst, const void* src, size_t bytes,
                                             cubit_stream stream);
/* Waits until all work on `stream` is complete. Errors of earlier launches may be reported here. */
CUBIT_API cubit_status cubit_device_synchronise(cubit_device* device, cubit_stream stream);
/* Fails with CUBIT_INVALID_ARGUMENT if the counters at the start of a workspace are not all zero after the work on
 * `stream`, for which the call waits. Nonzero counters make later launches wrong without an error: a launch that
 * failed, two launches at the same time, or a foreign write may leave them. Fill CUBIT_WORKSPACE_ZEROED_BYTES bytes
 * with zero to use the workspace again. A CPU device makes this check before every launch. */
CUBIT_API cubit_status cubit_device_check_workspace(cubit_device* device, const void* workspace, cubit_stream stream);
/* Selects what the device checks and counts in launches from now on: a sum of CUBIT_WATCH_ flags, initially 0. Only CPU
 * devices can watch launches; on a GPU every flag gives CUBIT_UNSUPPORTED.
 * CUBIT_WATCH_MEMORY reports a data race between warps, and a read of memory that nothing has written, as a device
 * error. Reads of uninitialised global memory are found only in memory that was allocated while this flag was set.
 * CUBIT_WATCH_COUNTERS collects the numbers that cubit_device_counters returns. */
#define CUBIT_WATCH_MEMORY 1u
#define CUBIT_WATCH_COUNTERS 2u
CUBIT_API cubit_status cubit_device_watch(cubit_device* device, unsigned what);
/* Returns the counters of all watched launches since the last call, in launch order, as JSON: [{kernel, blocks, warps,
 * barriers, instructions: {"ld.global": n}, shared: [{opcode, ptx_line, places, requests, wavefronts,
 * ideal_wavefronts}], global: [{opcode, ptx_line, places, requests, sectors, ideal_sectors}]}].
 *
 * `blocks` and `warps` are the numbers of a launch. `barriers` counts how often warps executed a barrier of a block or
 * of a cluster. `instructions` counts each instruction once per warp. An entry of `shared` or `global` is one memory
 * instruction, `ptx_line` its line in the kernel's PTX (cubit_kernel_cubin), and `requests` the number of times that
 * warps executed it. `wavefronts` (passes over the banks) and `sectors` (of 32 bytes) are sums over these requests;
 * the ideal_ numbers are the fewest that the same bytes could need. `places` are source positions "file:line", from the
 * innermost inlined function outwards. */
CUBIT_API cubit_status cubit_device_counters(cubit_device* device, const char** json);
/* Creates a non-blocking stream: the stream and the legacy default stream do not wait for each other. The caller
 * destroys the stream with cubit_stream_destroy, which accepts NULL.
 * Every function with a stream parameter accepts NULL for the legacy default stream. Only a capture requires a stream
 * from cubit_stream_create or from the CUDA API. */
CUBIT_API cubit_status cubit_stream_create(cubit_device* device, cubit_stream* stream);
CUBIT_API cubit_status cubit_stream_destroy(cubit_device* device, cubit_stream stream);
/* Begin and end a stream capture. Launches on `stream` in between are recorded, not executed. `stream` must not be
 * NULL. The caller releases *graph with cubit_graph_release. */
CUBIT_API cubit_status cubit_capture_begin(cubit_device* device, cubit_stream stream);
CUBIT_API cubit_status cubit_capture_end(cubit_device* device, cubit_stream stream, cubit_graph** graph);
/* Replays the graph on `stream`, waits until the stream is idle, and returns the milliseconds between two events around
 * the replay. `milliseconds` may be NULL. `device` must be the device that captured the graph. */
CUBIT_API cubit_status cubit_graph_replay(cubit_device* device, cubit_graph* graph, cubit_stream stream,
                                          double* milliseconds);
CUBIT_API void cubit_graph_release(cubit_graph* graph);

/* ---- engine --------------------------------------------------------------------------------------------------- */
typedef struct cubit_engine cubit_engine; /* one owner */
typedef struct cubit_kernel cubit_kernel; /* reference-counted; a kernel may outlive its engine */

/* Creates an engine. `options` may be NULL. An unusable cache folder is not an error: the engine logs one warning and
 * works without this folder. A folder that belongs to another user, or that others can write, is unusable unless
 * `cache_trust` names who is trusted. */
CUBIT_API cubit_status cubit_engine_create(const cubit_engine_options* options, cubit_engine** engine);
CUBIT_API void cubit_engine_release(cubit_engine* engine);

typedef struct cubit_counters {
  size_t size;
  uint64_t memory_hits;     /* requests whose kernel was in the engine's memory */
  uint64_t disk_hits;       /* requests whose kernel was in a store: a cache folder or a bundle */
  uint64_t compiles;        /* requests that compiled */
  uint64_t failures;        /* requests that ended in an error */
  uint64_t waits;           /* requests that waited for another thread's request of the same kernel */
  uint64_t damaged_entries; /* damaged disk entries that the engine deleted */
} cubit_counters;

/* Copies the engine's counters since its creation to *counters. The caller sets counters->size before the call. */
CUBIT_API cubit_status cubit_engine_counters(cubit_engine* engine, cubit_counters* counters);

/* Returns the engine's last warnings and errors of its log, oldest first and at most 32, as JSON: [text]. The engine
 * keeps them whether or not its options have a log function. */
CUBIT_API cubit_status cubit_engine_warnings(cubit_engine* engine, const char** json);

/* Describes the engine's stores in the order in which the engine asks them, as JSON: [{kind, name, trouble, readable,
 * writable, hits, misses, refused, published}]. `kind` is "folder", "system folder" or "bundle". `trouble` says
 * why the store cannot be used, or only be read. `refused` counts entries that were damaged or not trusted. */
CUBIT_API cubit_status cubit_engine_stores(cubit_engine* engine, const char** json);

/* Sets *cached to 1 if cubit_engine_get with the same arguments would compile nothing, and otherwise to 0. Entries are
 * not verified, and a damaged entry counts as cached. */
CUBIT_API cubit_status cubit_engine_is_cached(cubit_engine* engine, const char* descriptor, const char* architecture,
                                              int* cached);

/* Explains, as JSON, why the kernels of `descriptor` are not in a store: one object per member of a set, [{descriptor,
 * request_key, cached_in, nearest: {store, descriptor, architecture, compiler, differences: [sentence]}, unused:
 * [{store, reason}]}]. `cached_in` names the store that answers cubit_engine_get, or is "". `nearest` is the stored
 * entry that shares the most inputs of the compiler with the request, or null if the stores are empty. Only if no entry
 * is for the architecture of the request, `nearest` is an entry for another one. `unused` lists on a miss the stores
 * that this engine was given and does not use, for example bundles that none of its public keys signed. The call reads
 * all entries of all stores and changes none: it deletes no damaged entry, and counts as no request and no use. */
CUBIT_API cubit_status cubit_engine_explain_miss(cubit_engine* engine, const char* descriptor, const char* architecture,
                                                 const char** json);

/* Returns the kernel of `descriptor` for `architecture`. `architecture` is a name such as "sm_90a", "cpu:sm_90a" for
 * the CPU device of that name, or NULL for the device of the current CUDA context.
 *
 * For NULL the engine takes PTX of an older architecture from a store, with a warning, if no store has code for the
 * device's own architecture and the engine may not or cannot compile. The driver compiles the PTX when the kernel is
 * loaded. cubit_engine_prepare does the same.
 *
 * The engine looks in memory, then in its stores, and then compiles with NVRTC. The call uses no stream and loads
 * nothing onto a device. The caller releases the kernel with cubit_kernel_release. On failure *kernel is NULL.
 * If the descriptor names a set (see cubit_descriptor_members), the call makes all members. Each launch of *kernel then
 * takes the member that is fastest for its sizes, so a new size never compiles. */
CUBIT_API cubit_status cubit_engine_get(cubit_engine* engine, const char* descriptor, const char* architecture,
                                        cubit_kernel** kernel);

/* One header of a user's own kernel. `name` is spelled as in #include "name". cubit's device headers are always
 * available by their names. */
typedef struct cubit_header {
  const char* name;
  const char* text;
} cubit_header;

/* A user's own kernel: one template with its headers. The library reads all texts during the call only. */
typedef struct cubit_source {
  size_t size;
  const char* name;          /* text for messages, such as "scale_and_add:columns=4096" */
  const char* template_name; /* file name of the template: "scale_and_add.cuh" */
  const char* template_text;
  const char* plan_header;     /* text of "plan.cuh"; NULL if the template does not include a plan */
  const cubit_header* headers; /* NULL if header_count is 0 */
  size_t header_count;
  const char* entry_point;   /* name of an extern "C" __global__ function */
  int threads;               /* threads per block, 1 to 1024 */
  int dynamic_shared_memory; /* bytes per block, at most shared_memory_per_block of cubit_architectures */
} cubit_source;

/* Returns the kernel of a user's own source, as cubit_engine_get does for a descriptor. */
CUBIT_API cubit_status cubit_engine_get_source(cubit_engine* engine, const cubit_source* source,
                                               const char* architecture, cubit_kernel** kernel);

/* Gets the kernels of all descriptors, all members of sets included, for the architectures of all devices, loads them
 * there and resolves their functions. Later launches of these kernels never load code and may be captured. A
 * device_count of 0 means the device of the current CUDA context. */
CUBIT_API cubit_status cubit_engine_prepare(cubit_engine* engine, const char* const* descriptors,
                                            size_t descriptor_count, cubit_device* const* devices, size_t device_count);

/* ---- disk cache ----------------------------------------------------------------------------------------------- */
/* Lists the disk cache as JSON: {folder, readable, writable, trouble, entries: [{id, descriptor, architecture,
 * compiler, bytes, registers, spill_bytes, damage, removed}]}.
 *
 * `damage` is "" for a good entry and otherwise says what is wrong. `removed` is always false here. `registers` and
 * `spill_bytes` are null for PTX entries, which CPU devices execute, and for damaged entries. `descriptor`,
 * `architecture` and `compiler` of a damaged entry are "". */
CUBIT_API cubit_status cubit_cache_list(cubit_engine* engine, const char** json);
/* Checks all entries and lists the bad ones, in the form of cubit_cache_list. The call deletes damaged entries;
 * `removed` says whether the deletion succeeded. An entry that cannot be read at the moment (too many open files, a
 * failing disk) may be intact and stays. */
CUBIT_API cubit_status cubit_cache_verify(cubit_engine* engine, const char** json);
/* Stores the code of a kernel, or of all members of a set, in the engine's cache folder. The kernel may come from
 * another engine. The call fails with CUBIT_IO_ERROR if the folder cannot keep a kernel. */
CUBIT_API cubit_status cubit_cache_add(cubit_engine* engine, cubit_kernel* kernel);
/* Deletes the entries that were not used for max_days, then the least recently used entries until the others have at
 * most max_bytes bytes, and what dead processes left. Here 0 means no limit, whatever the engine's options and the
 * environment say. Returns the JSON of cubit_cache_stats. */
CUBIT_API cubit_status cubit_cache_prune(cubit_engine* engine, uint64_t max_bytes, unsigned max_days,
                                         const char** json);
/* Describes the cache folder without reading entries, as JSON: {folder, readable, writable, trouble, entries, bytes,
 * removed, removed_bytes, staging_files, lock_files, oldest_use_seconds, compilers: {version: entries}, free_bytes,
 * has_locks, lock_trouble}. Staging and lock files exist while a process compiles; dead processes may leave some. */
CUBIT_API cubit_status cubit_cache_stats(cubit_engine* engine, const char** json);
/* Deletes all entries. `removed` receives the number of deleted entries and may be NULL. */
CUBIT_API cubit_status cubit_cache_clear(cubit_engine* engine, size_t* removed);

/* ---- kernels -------------------------------------------------------------------------------------------------- */
/* Describes a kernel as JSON: {descriptor, architecture, request_key, artifact_id, compiler, entry_point, registers,
 * spill_bytes, spill_store_bytes, spill_load_bytes, stack_bytes, barriers, threads, static_shared_memory,
 * dynamic_shared_memory, cubin_bytes, compile_milliseconds, inputs}. The numbers of ptxas's report are null for PTX.
 * `inputs` has 16 digits for each input of the compiler, which cubit_engine_explain_miss compares. Of a set,
 * {descriptor, architecture, members: [such objects]}. The text is valid until the next string result. */
CUBIT_API cubit_status cubit_kernel_describe(cubit_kernel* kernel, const char** json);
CUBIT_API void cubit_kernel_retain(cubit_kernel* kernel); /* adds a reference, which needs a cubit_kernel_release */
/* Keep a kernel while its launches are in flight and while graphs contain them. The release of the last handle unloads
 * the kernel's code from its devices, unless an engine that returned the kernel still exists. */
CUBIT_API void cubit_kernel_release(cubit_kernel* kernel);
/* The number of kernels behind the handle: 1, or the number of a set's members. Member `index` is the kernel of text
 * `index` of cubit_descriptor_members. A kernel that is no set is its own member 0. The caller releases *member. */
CUBIT_API cubit_status cubit_kernel_member_count(cubit_kernel* kernel, size_t* count);
CUBIT_API cubit_status cubit_kernel_member(cubit_kernel* kernel, size_t index, cubit_kernel** member);
/* Returns the index of the member that a launch with these arguments takes; see cubit_kernel_workspace. */
CUBIT_API cubit_status cubit_kernel_choose(cubit_kernel* kernel, const void* arguments, cubit_device* device,
                                           size_t* index);
/* Returns the kernel's code: an ELF file (cubin), or PTX text for a CPU device's kernel. The bytes live as long as the
 * kernel. A set has no code of its own. */
CUBIT_API cubit_status cubit_kernel_cubin(cubit_kernel* kernel, const void** bytes, size_t* size);
/* Loads the kernel, or all members of a set, onto `device`, or onto the device of the current CUDA context if `device`
 * is NULL. The call is allowed while a stream is being captured. */
CUBIT_API cubit_status cubit_kernel_prepare(cubit_kernel* kernel, cubit_device* device);

/* The counters at the start of a workspace, in bytes. Fill these bytes with zero before the first launch that uses the
 * workspace, and after a launch that failed; every other launch leaves them zero. The rest of a workspace may hold
 * anything. All launches of one stream may share a workspace, because each waits for the launch before it. */
#define CUBIT_WORKSPACE_ZEROED_BYTES 16384

/* Describes where a launch runs and which workspace it uses. */
typedef struct cubit_launch {
  size_t size;
  cubit_device* device; /* the call makes this device's context current; NULL: this thread's current context */
  cubit_stream stream;
  /* Device memory, 256-byte aligned, whose first CUBIT_WORKSPACE_ZEROED_BYTES bytes were zero before the first use.
   * Launches that may run at the same time need workspaces of their own. NULL with 0 bytes is allowed if
   * cubit_kernel_workspace returns 0. */
  void* workspace;
  size_t workspace_bytes;
  /* 1 enables programmatic dependent launch: the kernel may start while the previous kernel in the stream still runs.
   * The kernel does its set-up and then waits for the previous kernel before it accesses memory. If the grid does not
   * fill the device, cubit requests enough shared memory per block to spread the blocks evenly over the
   * multiprocessors. Results do not change. Kernels without support, and devices before sm_90, start in stream order.
   */
  int overlap;
} cubit_launch;

/* Returns the workspace size in bytes that a launch with these arguments needs. `arguments` is the operator's public
 * struct, such as cubit_gqa_decode_arguments of <cubit/gqa_decode.h>, and is read during the call only. A NULL `device`
 * means the device of the current CUDA context. `batch`, `max_length`, `window` and `m` of *arguments are upper bounds:
 * the size serves every launch whose numbers are at most these, with or without `lengths`, whichever member of a set it
 * takes. All other numbers must be those of the launches. */
CUBIT_API cubit_status cubit_kernel_workspace(cubit_kernel* kernel, const void* arguments, cubit_device* device,
                                              size_t* bytes);
/* Launches an operator's kernel. The launch is stream-ordered and may be captured once the kernel is resident. Only a
 * thread's first launches allocate host memory.
 * Each thread remembers the encoded form of a few hundred launches that it has made at least twice. A later launch with
 * the same kernel, device, workspace and arguments (byte by byte, padding included) reuses the encoded form. A thread
 * also remembers the members of sets that it has chosen for about a thousand sizes. */
CUBIT_API cubit_status cubit_kernel_launch(cubit_kernel* kernel, const void* arguments, const cubit_launch* launch);
/* Launches a kernel from cubit_engine_get_source. `parameters` points to the kernel's single by-value argument of at
 * most 32764 bytes and is read during the call only; `parameters` is NULL if `parameter_bytes` is 0. `grid` is the
 * number of blocks in x, y and z. The call uses `device` and `stream` of `launch` and ignores `workspace`,
 * `workspace_bytes` and `overlap`. */
CUBIT_API cubit_status cubit_kernel_launch_raw(cubit_kernel* kernel, const uint32_t grid[3], const void* parameters,
                                               size_t parameter_bytes, const cubit_launch* launch);

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_CUBIT_H */
