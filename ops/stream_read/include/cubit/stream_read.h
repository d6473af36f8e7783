/* A plain read of a buffer: the launch arguments of the operator stream_read. */
#ifndef CUBIT_STREAM_READ_H
#define CUBIT_STREAM_READ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUBIT_STREAM_READ_SLOTS 4096

typedef struct cubit_stream_read_arguments {
  size_t size;        /* sizeof(cubit_stream_read_arguments) */
  const void* source; /* device memory, 16-byte aligned */
  int64_t bytes;      /* a multiple of 16 */
  uint32_t*
      checksums; /* [CUBIT_STREAM_READ_SLOTS], all written; the exclusive or of all is that of the source's words */
} cubit_stream_read_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_STREAM_READ_H */
