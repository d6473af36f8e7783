/* The border between libcubit and libcubit_cpu, which holds LLVM: C, one function, a table. Both are built together;
 * the version only guards against a stray library of another build. Private to this project. */
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

/* Where a failure is reported before the function returns false: cubit::Status and the three texts of a Failure. */
typedef void (*CubitCpuReport)(void* context, int status, const char* given, const char* rule, const char* remedy);

struct CubitCpuRange {
  uint64_t first;
  uint64_t last;    /* one past */
  uint8_t* written; /* 1 for each byte that has a value; null: all have */
};

struct CubitCpuLaunch {
  uint32_t grid[3];
  uint32_t threads;
  uint32_t dynamic_shared_memory;
  uint32_t cluster_blocks; /* along x */
  const void* parameters;
  size_t parameter_bytes;
  const struct CubitCpuRange* memory; /* all that the kernel may touch */
  size_t memory_count;
  int check;                                        /* watch for races and unwritten shared memory */
  void (*counted)(void* context, const char* json); /* null: nothing is counted; else called once, at the end */
};

struct CubitCpuInterface {
  int version;
  /* Null after a report. The text need not end in a zero. */
  struct CubitCpuProgram* (*load)(const char* ptx, size_t bytes, const char* entry_point, CubitCpuReport report,
                                  void* context);
  void (*unload)(struct CubitCpuProgram* program);
  /* Returns when all blocks are done; 0 after a report. `context` is for both functions. Thread-safe. */
  int (*execute)(const struct CubitCpuProgram* program, const struct CubitCpuLaunch* launch, CubitCpuReport report,
                 void* context);
};

typedef const struct CubitCpuInterface* (*CubitCpuInterfaceFunction)(void);

#ifdef __cplusplus
}
#endif

#endif
