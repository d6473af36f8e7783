/* The structs of XLA's foreign function interface (xla/ffi/api/c_api.h, version 0.3) that jax.c uses.
 *
 * They are declared here so that the package is built without jaxlib. python/tests/xla_ffi_layout.c compares them with
 * the header of an installed jaxlib. XLA supports an older version of the interface for at least 12 months.
 */
#ifndef CUBIT_PYTHON_XLA_FFI_H
#define CUBIT_PYTHON_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum {
  XLA_MAJOR = 0,
  XLA_MINOR = 3,
  XLA_METADATA = 1,
  XLA_ARRAY = 1,
  XLA_STRING = 4,
  XLA_INVALID = 3,
  XLA_INTERNAL = 13
};

typedef struct XlaError XlaError;
typedef struct XlaContext XlaContext;

typedef struct XlaExtension {
  size_t struct_size;
  int type;
  struct XlaExtension* next;
} XlaExtension;

typedef struct XlaVersion {
  size_t struct_size;
  XlaExtension* extension_start;
  int major, minor;
} XlaVersion;

typedef struct XlaMetadata {
  size_t struct_size;
  XlaVersion api_version;
  uint32_t traits;
} XlaMetadata;

typedef struct XlaMetadataExtension {
  XlaExtension base;
  XlaMetadata* metadata;
} XlaMetadataExtension;

typedef struct XlaErrorCreate {
  size_t struct_size;
  XlaExtension* extension_start;
  const char* message;
  int code;
} XlaErrorCreate;

typedef struct XlaStreamGet {
  size_t struct_size;
  XlaExtension* extension_start;
  XlaContext* context;
  void* stream; /* the result */
} XlaStreamGet;

typedef struct XlaDeviceOrdinalGet {
  size_t struct_size;
  XlaExtension* extension_start;
  XlaContext* context;
  int32_t device; /* the result */
} XlaDeviceOrdinalGet;

typedef struct XlaApi {
  size_t struct_size;
  XlaExtension* extension_start;
  XlaVersion api_version;
  const void* internal_api;
  XlaError* (*error_create)(XlaErrorCreate*);
  void (*unused_1[3])(void);
  XlaError* (*stream_get)(XlaStreamGet*);
  void (*unused_2[12])(void);
  XlaError* (*device_ordinal_get)(XlaDeviceOrdinalGet*);
} XlaApi;

typedef struct XlaBuffer {
  size_t struct_size;
  XlaExtension* extension_start;
  int type;
  void* data;
  int64_t rank;
  int64_t* extents;
} XlaBuffer;

typedef struct XlaText {
  const char* begin;
  size_t size;
} XlaText;

typedef struct XlaArray {
  int type;
  size_t size; /* in elements */
  void* data;
} XlaArray;

/* Operands, or results. */
typedef struct XlaBuffers {
  size_t struct_size;
  XlaExtension* extension_start;
  int64_t size;
  int* types;
  void** buffers;
} XlaBuffers;

typedef struct XlaAttributes {
  size_t struct_size;
  XlaExtension* extension_start;
  int64_t size;
  int* types;
  XlaText** names;
  void** values;
} XlaAttributes;

typedef struct XlaCall {
  size_t struct_size;
  XlaExtension* extension_start;
  const XlaApi* api;
  XlaContext* context;
  int stage;
  XlaBuffers operands;
  XlaBuffers results;
  XlaAttributes attributes;
} XlaCall;

#endif
