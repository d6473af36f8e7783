/* Reads a buffer once: the launch arguments of the operator stream_read. */
#ifndef CUBIT_STREAM_READ_H
#define CUBIT_STREAM_READ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of checksum words. */
#define CUBIT_STREAM_READ_SLOTS 4096

/* Device pointers belong to the caller and must stay valid until the launch has finished. */
typedef struct cubit_stream_read_arguments {
  size_t size;         /* sizeof(cubit_stream_read_arguments) */
  const void* source;  /* 16-byte aligned */
  int64_t bytes;       /* a multiple of 16; with 0 every slot becomes 0 */
  uint32_t* checksums; /* [CUBIT_STREAM_READ_SLOTS], 4-byte aligned. The launch writes every slot; the exclusive or of
                        * all slots equals the exclusive or of the source's 32-bit words */
} cubit_stream_read_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_STREAM_READ_H */
