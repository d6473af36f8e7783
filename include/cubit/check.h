/* Problems of cubit's operators: inputs by name, made-up data, launch arguments and a comparison with a reference in
 * double precision. Tools, tests and examples link libcubit_check, which provides these functions; a program that only
 * launches kernels needs libcubit alone.
 *
 * The conventions are those of <cubit/cubit.h>. cubit_last_error() has the text of a failed call of this library too. A
 * `const char**` result is owned by libcubit_check and lives until the next call on this thread that returns a string
 * from libcubit_check.
 */
#ifndef CUBIT_CHECK_H
#define CUBIT_CHECK_H

#include <cubit/cubit.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lists all operators as JSON, in the order of cubit_operators: [{name, random, bench: [{group, name, descriptor,
 * sizes, target_microseconds, target_share, comparable}], decompositions: [{name, numbers, fields}]}].
 *
 * `random` names the sizes that cubit_problem_random takes. `bench` holds the operator's benchmark cases; `group` is
 * the heading under which cases are printed. `sizes` are the sizes from which a case makes its data. A target is null
 * if the case has none. `target_microseconds` is the longest time on an NVIDIA H200. `target_share` is the smallest
 * share of the read floor: the time of a plain read of the same bytes in the same run, divided by the kernel's time.
 *
 * `decompositions` lists the ways to divide one launch among thread blocks, the baseline first: `numbers` are the
 * launch arguments that select a way, and `fields` are the descriptor fields that the way requires. `comparable` is the
 * descriptor that the comparison of decompositions uses for a case, or "" if the case takes no part.
 */
CUBIT_API cubit_status cubit_check_operators(const char** json);

typedef struct cubit_problem cubit_problem; /* one owner */

/* One named tensor in host memory. */
typedef struct cubit_tensor {
  const char* name;
  const char* type; /* spelled as in safetensors: "BF16", "F16", "F32", "U8", "I32" */
  int rank;         /* number of dimensions, 0 to 8 */
  int64_t shape[8]; /* the first `rank` entries, outermost dimension first */
  /* Host memory, dense and row-major. For an output that a launch changes only in part, `data` holds the values before
   * the launch; for every other output `data` is NULL. */
  void* data;
} cubit_tensor;

/* Creates a problem from input tensors. The call copies the inputs and checks names, types and shapes against the
 * descriptor. `inputs` and `numbers` may be NULL if their counts are 0. */
CUBIT_API cubit_status cubit_problem_create(const char* descriptor, const cubit_tensor* inputs, size_t input_count,
                                            const cubit_number* numbers, size_t number_count, cubit_problem** problem);
/* Returns the canonical text of the descriptor for a problem of these tensors and numbers. The text differs from
 * cubit_descriptor_canonical only if the operator has the field `alignment` and `descriptor` does not give it: the
 * result then has the largest alignment that the operator accepts and that the rows of the tensors have. The data of
 * the tensors is not read. */
CUBIT_API cubit_status cubit_problem_fit_descriptor(const char* descriptor, const cubit_tensor* inputs,
                                                    size_t input_count, const cubit_number* numbers,
                                                    size_t number_count, const char** text);
/* Creates a problem with made-up input data for sizes such as {"batch", 4}. The same seed gives the same bytes. */
CUBIT_API cubit_status cubit_problem_random(const char* descriptor, const cubit_number* sizes, size_t size_count,
                                            uint64_t seed, cubit_problem** problem);
CUBIT_API void cubit_problem_release(cubit_problem* problem);
CUBIT_API size_t cubit_problem_input_count(const cubit_problem* problem);
CUBIT_API size_t cubit_problem_output_count(const cubit_problem* problem);
/* Return tensor `index`, 0 to count - 1. Name, type and data of *tensor stay valid while the problem lives. */
CUBIT_API cubit_status cubit_problem_input(const cubit_problem* problem, size_t index, cubit_tensor* tensor);
CUBIT_API cubit_status cubit_problem_output(const cubit_problem* problem, size_t index, cubit_tensor* tensor);
/* Returns the bytes that any implementation must read and write. */
CUBIT_API cubit_status cubit_problem_traffic(const cubit_problem* problem, size_t* bytes_read, size_t* bytes_written);
/* Returns the number of multiplications plus additions that any implementation must do. */
CUBIT_API cubit_status cubit_problem_operations(const cubit_problem* problem, double* operations);
/* Returns the operator's argument struct for tensors at these device addresses: all inputs in order, then all outputs
 * in order. `count` is the number of inputs plus outputs. The result stays valid until this thread's next call of this
 * function. `bytes` receives the size of the struct and may be NULL. */
CUBIT_API cubit_status cubit_problem_arguments(const cubit_problem* problem, void* const* device_data, size_t count,
                                               const void** arguments, size_t* bytes);
/* Compares outputs with a reference in double precision. `outputs` are host copies of all outputs in order, dense and
 * row-major; `count` is the number of outputs.
 *
 * Among all compared places, the call reports the one whose error is the largest share of its tolerance: `error`,
 * `tolerance` and the place in `worst`. The outputs are good if `error` is at most `tolerance`; an error that is NaN is
 * not good. Each of the three results may be NULL. The text in `worst` stays valid until this thread's next string
 * result. */
CUBIT_API cubit_status cubit_problem_compare(const cubit_problem* problem, const void* const* outputs, size_t count,
                                             double* error, double* tolerance, const char** worst);
/* Describes the launch of the problem by `kernel` on `device` as JSON: {descriptor, grid, blocks, cluster_blocks,
 * threads, dynamic_shared_memory, workspace_bytes, blocks_per_sm, occupancy}. Nothing is launched, and the tensors need
 * no device memory. `descriptor` is that of the kernel, or of the set's member that the launch takes. `blocks` is the
 * number of blocks of the grid. `blocks_per_sm` is the number of blocks that one multiprocessor holds at once, by
 * registers, shared memory, threads and blocks; `occupancy` is the share of the multiprocessor's warps that these
 * blocks have. Both are null for a CPU device's kernel, whose registers are not known. */
CUBIT_API cubit_status cubit_problem_describe_launch(const cubit_problem* problem, cubit_kernel* kernel,
                                                     cubit_device* device, const char** json);

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_CHECK_H */
