/* Versions, status codes and errors of the C interface, whose conventions <cubit/cubit.h> states. */
#ifndef CUBIT_STATUS_H
#define CUBIT_STATUS_H

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

typedef enum cubit_status {
  CUBIT_OK = 0,
  CUBIT_INVALID_ARGUMENT = 1,     /* an argument, option or environment variable has a value that is not accepted */
  CUBIT_UNSUPPORTED = 2,          /* well formed, but this operator or architecture has no kernel for it */
  CUBIT_NOT_CACHED = 3,           /* the engine is not allowed to compile, and no cache or bundle has the kernel */
  CUBIT_COMPILE_FAILED = 4,       /* the compiler rejected the source; the error text contains the compiler log */
  CUBIT_COMPILER_UNAVAILABLE = 5, /* this machine has no usable NVRTC */
  CUBIT_DRIVER_UNAVAILABLE = 6,   /* this machine has no CUDA driver or no GPU */
  CUBIT_DEVICE_ERROR = 7,         /* the CUDA driver reported an error */
  CUBIT_NOT_RESIDENT = 8,         /* a launch during stream capture used a kernel that was not prepared on the device */
  CUBIT_IO_ERROR = 9,             /* a file or folder could not be read or written */
  CUBIT_INTERNAL = 10             /* a bug in cubit, or an allocation of host memory failed */
} cubit_status;

/* Describes one failure. `message` is the sentence "<what>: <why>; <remedy>" made of the three parts below, without
 * "; <remedy>" if `remedy` is "". No text is NULL. All texts stay valid until this thread's next failing call or next
 * call of cubit_set_last_error. */
typedef struct cubit_error {
  cubit_status status;
  const char* message; /* the whole sentence */
  const char* what;    /* what was given */
  const char* why;     /* the rule it breaks */
  const char* remedy;  /* what the library would accept; may be "" */
} cubit_error;

/* Returns the last failure of a call on this thread. The result is never NULL. Before the first failure `status` is
 * CUBIT_OK and all texts are "". */
CUBIT_API const cubit_error* cubit_last_error(void);

/* Sets this thread's last error from its three parts. Libraries on top of cubit, such as libcubit_check, report their
 * errors in this way. The texts are copied; NULL means "". */
CUBIT_API void cubit_set_last_error(cubit_status status, const char* what, const char* why, const char* remedy);

/* The version of the library at run time: major * 10000 + minor * 100 + patch. */
CUBIT_API int cubit_version(void);

#ifdef __cplusplus
}
#endif

#endif
