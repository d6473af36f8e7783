/* XLA's custom calls: from the buffers of one call to cubit_kernel_launch.
 *
 * cubit/jax.py infers sizes, checks arrays and fills an operator's argument struct while JAX traces a function. The
 * struct and the offsets of its addresses are attributes of the call, so an executable that JAX has stored is complete.
 * Nothing here knows an operator. Kernels come from a function of Python, usually once for each descriptor and device.
 * Threads that begin at the same time may each call it.
 */
#include <cubit/cubit.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "workspaces.h"
#include "xla_ffi.h"

enum { MOST_BUFFERS = 32, MOST_STRUCT_BYTES = 1024, MOST_TEXT = 1024, SMALLEST_WORKSPACE = 1 << 20 };

/* Filled by Python, see cubit/jax.py. */
typedef struct cubit_jax_kernel {
  cubit_kernel* kernel;
  cubit_device* device;
} cubit_jax_kernel;

/* Returns 0, or a status after cubit_set_last_error. */
typedef int (*Resolve)(const char* descriptor, const char* device, cubit_jax_kernel* result);

typedef struct Resolved {
  struct Resolved* next;
  cubit_jax_kernel kernel;
  char name[]; /* the descriptor, a space and the device */
} Resolved;

/* One call: its attributes, and the addresses of its buffers. */
typedef struct Call {
  const XlaText* descriptor;
  const XlaText* architecture; /* of the CPU device */
  const XlaArray* arguments;   /* the struct without addresses */
  const XlaArray* offsets;     /* in the struct, of operands and then of results */
  const XlaArray* bytes;       /* of operands and then of results */
  const XlaArray* overlap;     /* one number, that of cubit_launch */
  int64_t operand_count, count;
  void* data[MOST_BUFFERS];
  cubit_jax_kernel kernel;
  _Alignas(16) unsigned char filled[MOST_STRUCT_BYTES];
} Call;

static Resolve resolve;
static Resolved* resolved;
static pthread_mutex_t resolved_lock = PTHREAD_MUTEX_INITIALIZER;

CUBIT_API void cubit_jax_start(Resolve function) { resolve = function; }

/* XLA asks a handler for its version before the first call. */
static int is_metadata(const XlaCall* call) {
  XlaExtension* const extension = call->extension_start;
  if (extension == NULL || extension->type != XLA_METADATA) return 0;
  XlaMetadata* const metadata = ((XlaMetadataExtension*)(void*)extension)->metadata;
  metadata->api_version.major = XLA_MAJOR;
  metadata->api_version.minor = XLA_MINOR;
  metadata->traits = 0;
  return 1;
}

static XlaError* failure(const XlaCall* call, int code, const char* message) {
  XlaErrorCreate create = {sizeof create, NULL, message, code};
  return call->api->error_create(&create);
}

static XlaError* last_failure(const XlaCall* call) {
  const cubit_error* const error = cubit_last_error();
  return failure(call, error->status == CUBIT_INVALID_ARGUMENT ? XLA_INVALID : XLA_INTERNAL, error->message);
}

static const void* attribute(const XlaCall* call, const char* name, int type) {
  const XlaAttributes* const all = &call->attributes;
  for (int64_t i = 0; i < all->size; ++i) {
    if (all->types[i] == type && all->names[i]->size == strlen(name) &&
        memcmp(all->names[i]->begin, name, all->names[i]->size) == 0)
      return all->values[i];
  }
  return NULL;
}

/* Returns 0 if the call was not made by cubit/jax.py. */
static int read_call(const XlaCall* from, Call* call) {
  call->descriptor = attribute(from, "descriptor", XLA_STRING);
  call->architecture = attribute(from, "architecture", XLA_STRING);
  call->arguments = attribute(from, "arguments", XLA_ARRAY);
  call->offsets = attribute(from, "offsets", XLA_ARRAY);
  call->bytes = attribute(from, "bytes", XLA_ARRAY);
  call->overlap = attribute(from, "overlap", XLA_ARRAY);
  call->operand_count = from->operands.size;
  call->count = from->operands.size + from->results.size;
  if (call->descriptor == NULL || call->architecture == NULL || call->arguments == NULL || call->offsets == NULL ||
      call->bytes == NULL || call->overlap == NULL || call->count > MOST_BUFFERS ||
      call->offsets->size != (size_t)call->count || call->bytes->size != (size_t)call->count ||
      call->arguments->size > MOST_STRUCT_BYTES)
    return 0;
  for (int64_t i = 0; i < call->count; ++i) {
    const int64_t at = ((const int64_t*)call->offsets->data)[i];
    if (at < 0 || (size_t)at + sizeof(void*) > call->arguments->size) return 0;
    void* const buffer =
        i < call->operand_count ? from->operands.buffers[i] : from->results.buffers[i - call->operand_count];
    call->data[i] = ((const XlaBuffer*)buffer)->data;
  }
  memcpy(call->filled, call->arguments->data, call->arguments->size);
  return 1;
}

static size_t offset_of(const Call* call, int64_t i) { return (size_t)((const int64_t*)call->offsets->data)[i]; }
static size_t bytes_of(const Call* call, int64_t i) { return (size_t)((const int64_t*)call->bytes->data)[i]; }

static void set_address(Call* call, int64_t i, const void* address) {
  memcpy(call->filled + offset_of(call, i), &address, sizeof address);
}

/* Finds the kernel for a device, or asks Python for it. Returns 0 after an error. */
static int find_kernel(Call* call, const char* device) {
  char name[MOST_TEXT];
  const size_t length = call->descriptor->size, size = length + 1 + strlen(device) + 1;
  if (size > sizeof name) {
    cubit_set_last_error(CUBIT_INVALID_ARGUMENT, "a descriptor", "is too long for a call of JAX", "");
    return 0;
  }
  memcpy(name, call->descriptor->begin, length);
  name[length] = ' ';
  strcpy(name + length + 1, device);
  pthread_mutex_lock(&resolved_lock);
  const Resolved* found = resolved;
  while (found != NULL && strcmp(found->name, name) != 0) found = found->next;
  if (found != NULL) call->kernel = found->kernel;
  pthread_mutex_unlock(&resolved_lock);
  if (found != NULL) return 1;
  Resolved* const made = malloc(sizeof *made + size);
  if (made == NULL) {
    cubit_set_last_error(CUBIT_INTERNAL, "a call of JAX", "has no memory for the name of its kernel", "");
    return 0;
  }
  memcpy(made->name, name, size);
  name[length] = '\0';
  if (resolve(name, device, &made->kernel) != 0) {
    free(made);
    return 0;
  }
  call->kernel = made->kernel;
  pthread_mutex_lock(&resolved_lock);
  made->next = resolved;
  resolved = made;
  pthread_mutex_unlock(&resolved_lock);
  return 1;
}

/* The stream's workspace, of at least `bytes` bytes. Returns NULL after an error. */
static void* stream_workspace(cubit_device* device, int32_t device_id, void* stream, size_t* bytes) {
  Workspace found = find_workspace(device_id, stream);
  if (found.bytes < *bytes) {
    size_t size = SMALLEST_WORKSPACE;
    while (size < *bytes) size *= 2;
    if (cubit_device_allocate(device, size, &found.memory) != CUBIT_OK) return NULL;
    found.bytes = size;
    if (cubit_device_fill_zero(device, found.memory, size, stream) != CUBIT_OK) return NULL;
    if (!cubit_python_set_workspace(device_id, stream, found.memory, size)) {
      cubit_set_last_error(CUBIT_UNSUPPORTED, "the workspaces of this process",
                           "cubit keeps one for each of 256 streams", "reuse streams");
      return NULL;
    }
  }
  *bytes = found.bytes;
  return found.memory;
}

/* The handler of platform CUDA: launches in the order of the stream on which XLA executes the call. */
CUBIT_API XlaError* cubit_jax_cuda(XlaCall* from) {
  if (is_metadata(from)) return NULL;
  Call call;
  XlaStreamGet stream = {sizeof stream, NULL, from->context, NULL};
  XlaDeviceOrdinalGet ordinal = {sizeof ordinal, NULL, from->context, 0};
  if (!read_call(from, &call)) return failure(from, XLA_INTERNAL, "the call is not one of cubit.jax");
  if (from->api->struct_size < sizeof(XlaApi)) return failure(from, XLA_INTERNAL, "cubit.jax needs a newer jaxlib");
  XlaError* error = from->api->stream_get(&stream);
  if (error == NULL) error = from->api->device_ordinal_get(&ordinal);
  if (error != NULL) return error;
  char device[32] = "cuda:";
  char* end = device + strlen(device);
  if (ordinal.device >= 10) *end++ = (char)('0' + ordinal.device / 10 % 10);
  *end++ = (char)('0' + ordinal.device % 10);
  *end = '\0';
  if (!find_kernel(&call, device)) return last_failure(from);
  for (int64_t i = 0; i < call.count; ++i) set_address(&call, i, call.data[i]);
  cubit_launch how = {.size = sizeof how, .device = call.kernel.device, .stream = stream.stream};
  how.overlap = *(const int64_t*)call.overlap->data != 0;
  size_t bytes = 0;
  if (cubit_kernel_workspace(call.kernel.kernel, call.filled, how.device, &bytes) != CUBIT_OK)
    return last_failure(from);
  if (bytes != 0) {
    how.workspace = stream_workspace(how.device, ordinal.device, how.stream, &bytes);
    if (how.workspace == NULL) return last_failure(from);
    how.workspace_bytes = bytes;
  }
  const cubit_status status = cubit_kernel_launch(call.kernel.kernel, call.filled, &how);
  if (status == CUBIT_DEVICE_ERROR && bytes != 0) forget_workspace(ordinal.device, how.stream);
  return status == CUBIT_OK ? NULL : last_failure(from);
}

/* The buffer that buffer `i` shares its memory with: a result that is an updated operand has the operand's offset. */
static int64_t first_of(const Call* call, int64_t i) {
  int64_t first = 0;
  while (offset_of(call, first) != offset_of(call, i)) ++first;
  return first;
}

/* Copies the operands into the device's memory, launches, and copies the results back. */
static cubit_status launch_on_cpu(Call* call, void** memory) {
  cubit_launch how = {.size = sizeof how, .device = call->kernel.device};
  cubit_status status = CUBIT_OK;
  for (int64_t i = 0; i < call->count && status == CUBIT_OK; ++i) {
    const int64_t first = first_of(call, i);
    if (first == i) status = cubit_device_allocate(how.device, bytes_of(call, i), &memory[i]);
    if (status == CUBIT_OK && i < call->operand_count)
      status = cubit_device_upload(how.device, memory[first], call->data[i], bytes_of(call, i), NULL);
    set_address(call, i, memory[first]);
  }
  if (status == CUBIT_OK)
    status = cubit_kernel_workspace(call->kernel.kernel, call->filled, how.device, &how.workspace_bytes);
  if (status == CUBIT_OK) status = cubit_device_allocate(how.device, how.workspace_bytes, &memory[MOST_BUFFERS]);
  how.workspace = memory[MOST_BUFFERS];
  if (status == CUBIT_OK) status = cubit_device_fill_zero(how.device, how.workspace, how.workspace_bytes, NULL);
  if (status == CUBIT_OK) status = cubit_kernel_launch(call->kernel.kernel, call->filled, &how);
  for (int64_t i = call->operand_count; i < call->count && status == CUBIT_OK; ++i)
    status = cubit_device_download(how.device, call->data[i], memory[first_of(call, i)], bytes_of(call, i), NULL);
  return status;
}

/* The handler of platform cpu: the CPU device executes the kernel. */
CUBIT_API XlaError* cubit_jax_cpu(XlaCall* from) {
  if (is_metadata(from)) return NULL;
  Call call;
  char device[64];
  if (!read_call(from, &call) || call.architecture->size >= sizeof device)
    return failure(from, XLA_INTERNAL, "the call is not one of cubit.jax");
  memcpy(device, call.architecture->begin, call.architecture->size);
  device[call.architecture->size] = '\0';
  if (!find_kernel(&call, device)) return last_failure(from);
  void* memory[MOST_BUFFERS + 1] = {NULL};
  XlaError* const error = launch_on_cpu(&call, memory) == CUBIT_OK ? NULL : last_failure(from);
  for (size_t i = 0; i <= MOST_BUFFERS; ++i) (void)cubit_device_free(call.kernel.device, memory[i]);
  return error;
}
