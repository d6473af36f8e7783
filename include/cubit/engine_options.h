/* Options of an engine of the C interface, whose conventions <cubit/cubit.h> states. */
#ifndef CUBIT_ENGINE_OPTIONS_H
#define CUBIT_ENGINE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum cubit_log_level {
  CUBIT_LOG_DEBUG = 0,
  CUBIT_LOG_INFO = 1,
  CUBIT_LOG_WARNING = 2,
  CUBIT_LOG_ERROR = 3
} cubit_log_level;

/* Receives log lines. cubit may call the function on any thread, and on several threads at once, so the function must
 * guard its shared data. `line` has no trailing newline and is valid only during the call. cubit holds no lock during
 * the call, so the function may call cubit with the same engine. cubit drops exceptions that the function throws. */
typedef void (*cubit_log_function)(void* context, cubit_log_level level, const char* line);

typedef enum cubit_compile_policy {
  CUBIT_COMPILE_FROM_ENVIRONMENT = 0, /* the variable CUBIT_COMPILE decides: "never", or "allow" (default) */
  CUBIT_COMPILE_ALLOW = 1,
  CUBIT_COMPILE_NEVER = 2 /* requesting a kernel that is not in any cache or bundle fails with CUBIT_NOT_CACHED */
} cubit_compile_policy;

typedef enum cubit_compiler_policy {
  /* The variable CUBIT_COMPILER decides: "exact", "any" (default), or a version such as "13.0.88". With a version, only
   * stored code of this NVRTC is used, the engine opens NVRTC only to compile, and compiles with no other version. */
  CUBIT_COMPILER_FROM_ENVIRONMENT = 0,
  CUBIT_COMPILER_ANY = 1, /* stored code of any NVRTC version that the driver can load is used */
  /* Only stored code of the NVRTC that this engine would compile with is used. To learn its version, the first request
   * of the engine opens NVRTC, also if the code is stored. */
  CUBIT_COMPILER_EXACT = 2
} cubit_compiler_policy;

/* A bundle in the caller's memory, for example embedded in the executable. `name` is text for messages. The bytes must
 * stay valid and unchanged until the engine is released and all calls with the engine have returned. */
typedef struct cubit_bundle_memory {
  const char* name;
  const void* data;
  size_t bytes;
} cubit_bundle_memory;

/* Every store can be off: cache_dir, system_caches and bundles by "", bundle_memory by a count of 0, and the compiler
 * by CUBIT_COMPILE_NEVER. The engine's memory has no switch: the engine holds every kernel that it returned until it is
 * released, because a later request must not load the same code onto a device again. */
typedef struct cubit_engine_options {
  size_t size; /* sizeof(cubit_engine_options) */
  /* Folder of the disk cache; "" disables the disk cache. With NULL the first environment variable that is set decides:
   * CUBIT_CACHE_DIR (which may be ""), XDG_CACHE_HOME ($XDG_CACHE_HOME/cubit), HOME ($HOME/.cache/cubit). If none is
   * set, the engine logs a warning and works without a disk cache. */
  const char* cache_dir;
  const char* nvrtc_path; /* NVRTC library file; NULL: the variable CUBIT_NVRTC, else cubit searches for NVRTC */
  cubit_compile_policy compile;
  cubit_log_function log; /* NULL: log lines are dropped */
  /* Passed to `log`. Both must stay valid until the engine is released and all calls with the engine have returned. */
  void* log_context;
  /* Further cache folders, separated by colons, which the engine only reads. NULL: the variable CUBIT_SYSTEM_CACHES. */
  const char* system_caches;
  /* Further owners of files in cache folders whom the engine trusts, besides the current user and root:
   * "user:alice,user:1001" or "group:gpu". NULL: the variable CUBIT_CACHE_TRUST. */
  const char* cache_trust;
  cubit_compiler_policy compiler;
  /* The longest wait for another process that compiles the same kernel. 0: the variable CUBIT_LOCK_WAIT, else 120
   * seconds. A negative number: the engine does not wait. */
  int lock_wait_seconds;
  /* Limits of the disk cache. From time to time the engine deletes the least recently used entries beyond the limits.
   * 0: the variable CUBIT_CACHE_MAX_BYTES (such as "2G") or CUBIT_CACHE_MAX_DAYS decides; without the variable there is
   * no limit. UINT64_MAX bytes, or UINT_MAX days, are no limit whatever the variables say. */
  uint64_t cache_max_bytes;
  unsigned cache_max_days;
  /* Bundle files, separated by colons, in which the engine looks for kernels after the cache folders. NULL: the
   * variable CUBIT_BUNDLES. The engine logs one warning for a file that it cannot use; cubit_engine_stores gives the
   * reason. */
  const char* bundles;
  const cubit_bundle_memory* bundle_memory; /* bundles in memory, searched after the files; NULL if there are none */
  size_t bundle_memory_count;
  /* Ed25519 public keys of 64 hexadecimal digits each, separated by colons. NULL: the variable CUBIT_PUBLIC_KEYS. If
   * there is a key, the engine loads only bundles that one of the keys signed. The engine then uses no cache folder,
   * and compiles only if allow_local_compile is not 0. Code compiled in this way stays in memory. */
  const char* public_keys;
  int allow_local_compile;
} cubit_engine_options;

#endif /* CUBIT_ENGINE_OPTIONS_H */
