/* The private C interface between libcubit and libcubit_cpu, which contains LLVM: one function that returns a table.
 * Both libraries are built together. The version number detects a library from another build. */
#ifndef CUBIT_RUNTIME_CPU_INTERFACE_H
#define CUBIT_RUNTIME_CPU_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUBIT_CPU_INTERFACE_VERSION 3
#define CUBIT_CPU_INTERFACE_SYMBOL "cubit_cpu_interface"

struct CubitCpuProgram;

/* Reports a failure before a function returns its failure value: a cubit::Status and the three texts of a Failure. */
typedef void (*CubitCpuReport)(void* context, int status, const char* given, const char* rule, const char* remedy);

struct CubitCpuRange {
  uint64_t first;
  uint64_t last;    /* first address after the range */
  uint8_t* written; /* 1 for each byte that has a value; null: all bytes have values */
};

struct CubitCpuLaunch {
  uint32_t grid[3];
  uint32_t threads;
  uint32_t dynamic_shared_memory;
  uint32_t cluster_blocks; /* cluster size along x */
  const void* parameters;
  size_t parameter_bytes;
  const struct CubitCpuRange* memory; /* all memory that the kernel may access */
  size_t memory_count;
  int check; /* nonzero: check for races and for reads of unwritten shared memory */
  void (*counted)(void* context, const char* json); /* null: nothing is counted; otherwise called once, at the end */
};

struct CubitCpuInterface {
  int version;
  /* Returns null after a report. The text needs no terminating zero. */
  struct CubitCpuProgram* (*load)(const char* ptx, size_t bytes, const char* entry_point, CubitCpuReport report,
                                  void* context);
  void (*unload)(struct CubitCpuProgram* program);
  /* Returns when all blocks have finished; 0 after a report. `context` is passed to both callbacks. Thread-safe. */
  int (*execute)(const struct CubitCpuProgram* program, const struct CubitCpuLaunch* launch, CubitCpuReport report,
                 void* context);
};

typedef const struct CubitCpuInterface* (*CubitCpuInterfaceFunction)(void);

#ifdef __cplusplus
}
#endif

#endif
