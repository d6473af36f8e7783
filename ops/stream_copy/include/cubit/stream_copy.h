/* Copies a buffer: the launch arguments of the operator stream_copy. */
#ifndef CUBIT_STREAM_COPY_H
#define CUBIT_STREAM_COPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device pointers belong to the caller and must stay valid until the launch has finished. */
typedef struct cubit_stream_copy_arguments {
  size_t size;        /* sizeof(cubit_stream_copy_arguments) */
  const void* source; /* 16-byte aligned */
  void* destination;  /* 16-byte aligned; source and destination do not overlap */
  int64_t bytes;      /* a multiple of 16; 0: nothing is copied */
} cubit_stream_copy_arguments;

#ifdef __cplusplus
}
#endif
#endif /* CUBIT_STREAM_COPY_H */
