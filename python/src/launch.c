/* The hot path of the Python package: from the tensors of one call to cubit_kernel_launch.
 *
 * Python infers sizes, checks tensors and fills an operator's argument struct from the argument table: once for each
 * combination of shapes, strides, types and numbers. The result is a plan. Every later call with the same combination
 * finds its plan here, writes the addresses into a copy of the struct and launches. Nothing here knows an operator.
 *
 * cubit_python_launch has the calling convention of tvm-ffi (TVMFFISafeCallType), whose Python half turns tensors of
 * PyTorch and CuPy into DLTensor and knows the current stream of PyTorch. Only the C ABI of tvm-ffi is used, and the
 * few structs of it that this file needs are declared below: the file needs no header and links no library of tvm-ffi.
 */
#include <cubit/cubit.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "workspaces.h"

/* DLPack 1.x and the C ABI of tvm-ffi 0.1. */
typedef struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t* shape;
  const int64_t* strides; /* in elements; NULL before DLPack 1.2: dense */
  uint64_t byte_offset;
} DlTensor;
typedef struct FfiAny {
  int32_t type;
  uint32_t padding;
  union {
    int64_t integer;
    double real;
    void* pointer;
  } value;
} FfiAny;
enum { FFI_NONE = 0, FFI_INT = 1, FFI_FLOAT = 3, FFI_DL_TENSOR = 7, FFI_TENSOR = 70, FFI_OBJECT_HEADER = 24 };
enum { DL_CUDA = 2 };

enum {
  MOST_VALUES = 32, /* tensors and numbers of one call */
  MOST_RANK = 8,
  MOST_KEY = MOST_VALUES * (2 + 2 * MOST_RANK),
  MOST_ARGUMENT_BYTES = 1024,
  BUCKETS = 64,
  MOST_PLANS = 4096 /* of one call; more combinations empty the table */
};

/* What cubit_python_launch returns to Python; statuses of cubit are added to LAUNCH_FAILED. */
enum { LAUNCHED = 0, NO_PLAN = 1, NO_WORKSPACE = 2, NOT_CUDA = 3, NOT_TENSOR = 4, TOO_LARGE = 5, LAUNCH_FAILED = 100 };

typedef void* (*StreamFunction)(int32_t device_type, int32_t device_id);

/* Filled by Python, see cubit/_launch.py. */
typedef struct cubit_python_plan {
  cubit_kernel* kernel;
  cubit_device* device;
  size_t workspace_bytes;
  size_t argument_bytes;
  const void* arguments;
} cubit_python_plan;

typedef struct Plan {
  struct Plan* next;
  uint64_t hash;
  size_t key_words;
  cubit_kernel* kernel;
  cubit_device* device;
  size_t workspace_bytes;
  size_t argument_bytes;
  uint64_t words[]; /* the key, then the argument struct */
} Plan;

typedef struct cubit_python_call {
  pthread_mutex_t lock;
  int count;
  int overlap;
  size_t offsets[MOST_VALUES]; /* of the pointer to each tensor in the struct; 0: the value is a number */
  size_t plan_count;
  const Plan* last; /* the plan of the last launch */
  Plan* buckets[BUCKETS];
} cubit_python_call;

/* The workspace that the last launch of this thread lacked. */
typedef struct cubit_python_missing {
  void* stream;
  size_t bytes;
  int32_t device_id;
} cubit_python_missing;

static _Thread_local cubit_python_missing missing;
static StreamFunction current_stream;

typedef struct Key {
  const DlTensor* tensors[MOST_VALUES]; /* NULL: a number, or a tensor that is not given */
  const DlTensor* first;                /* NULL: no tensor is given */
  size_t words;
  uint64_t word[MOST_KEY];
} Key;

/* `stream` is TVMFFIEnvGetStream. */
CUBIT_API void cubit_python_start(StreamFunction stream) { current_stream = stream; }

/* A way to call an operator: the tensors and numbers that are given, in order. See `offsets` above, and `overlap` of
 * cubit_launch. */
CUBIT_API cubit_python_call* cubit_python_call_create(int count, const size_t* offsets, int overlap) {
  if (count > MOST_VALUES) return NULL;
  cubit_python_call* const call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  pthread_mutex_init(&call->lock, NULL);
  call->count = count;
  call->overlap = overlap;
  memcpy(call->offsets, offsets, (size_t)count * sizeof *offsets);
  return call;
}

static void drop_plans(cubit_python_call* call) {
  for (size_t i = 0; i < BUCKETS; ++i) {
    while (call->buckets[i] != NULL) {
      Plan* const plan = call->buckets[i];
      call->buckets[i] = plan->next;
      free(plan);
    }
  }
  call->plan_count = 0;
  call->last = NULL;
}

CUBIT_API void cubit_python_call_release(cubit_python_call* call) {
  if (call == NULL) return;
  drop_plans(call);
  pthread_mutex_destroy(&call->lock);
  free(call);
}

CUBIT_API const cubit_python_missing* cubit_python_missing_workspace(void) { return &missing; }

static const DlTensor* tensor_of(const FfiAny* argument) {
  if (argument->type == FFI_DL_TENSOR) return argument->value.pointer;
  if (argument->type == FFI_TENSOR) return (const DlTensor*)((const char*)argument->value.pointer + FFI_OBJECT_HEADER);
  return NULL;
}

static int add_tensor(Key* key, const DlTensor* tensor) {
  if (tensor->rank > MOST_RANK) return TOO_LARGE;
  if (tensor->device_type != DL_CUDA) return NOT_CUDA;
  if (key->first == NULL) key->first = tensor;
  uint64_t* const word = key->word + key->words;
  const size_t rank = (size_t)tensor->rank;
  word[0] = 1 | (uint64_t)tensor->code << 8 | (uint64_t)tensor->bits << 16 | (uint64_t)tensor->lanes << 24 |
            (uint64_t)rank << 40 | (uint64_t)(tensor->strides != NULL) << 48;
  word[1] = (uint64_t)tensor->device_id;
  memcpy(word + 2, tensor->shape, rank * sizeof *word);
  key->words += 2 + rank;
  if (tensor->strides == NULL) return LAUNCHED;
  memcpy(word + 2 + rank, tensor->strides, rank * sizeof *word);
  key->words += rank;
  return LAUNCHED;
}

/* The part of the arguments that a plan depends on: everything but addresses. */
static int make_key(const cubit_python_call* call, const FfiAny* arguments, Key* key) {
  key->first = NULL;
  key->words = 0;
  for (int i = 0; i < call->count; ++i) {
    const FfiAny* const given = &arguments[i];
    const DlTensor* const tensor = tensor_of(given);
    key->tensors[i] = call->offsets[i] == 0 ? NULL : tensor;
    if (call->offsets[i] == 0 || given->type == FFI_NONE) {
      if (given->type != FFI_NONE && given->type != FFI_INT && given->type != FFI_FLOAT) return NOT_TENSOR;
      key->word[key->words++] = (uint64_t)given->type << 8; /* a tensor has 1 in its lowest byte */
      key->word[key->words++] = given->type == FFI_NONE ? 0 : (uint64_t)given->value.integer;
      continue;
    }
    if (tensor == NULL) return NOT_TENSOR;
    const int trouble = add_tensor(key, tensor);
    if (trouble != LAUNCHED) return trouble;
  }
  return key->first == NULL ? NO_PLAN : LAUNCHED;
}

static uint64_t hash_of(const Key* key) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < key->words; ++i) hash = (hash ^ key->word[i]) * 0xff51afd7ed558ccdu, hash ^= hash >> 29;
  return hash;
}

static int is_plan_of(const Plan* plan, const Key* key) {
  return plan->key_words == key->words && memcmp(plan->words, key->word, key->words * sizeof *key->word) == 0;
}

/* An engine repeats its launches, so the last plan is tried first, without a hash. */
static const Plan* find_plan(cubit_python_call* call, const Key* key) {
  if (call->last != NULL && is_plan_of(call->last, key)) return call->last;
  const uint64_t hash = hash_of(key);
  const Plan* plan = call->buckets[hash % BUCKETS];
  while (plan != NULL && (plan->hash != hash || !is_plan_of(plan, key))) plan = plan->next;
  if (plan != NULL) call->last = plan;
  return plan;
}

static int add_plan(cubit_python_call* call, const Key* key, const cubit_python_plan* given) {
  const uint64_t hash = hash_of(key);
  if (given->argument_bytes > MOST_ARGUMENT_BYTES) return TOO_LARGE;
  Plan* const plan = malloc(sizeof *plan + key->words * sizeof *key->word + given->argument_bytes);
  if (plan == NULL) return TOO_LARGE;
  plan->hash = hash;
  plan->key_words = key->words;
  plan->kernel = given->kernel;
  plan->device = given->device;
  plan->workspace_bytes = given->workspace_bytes;
  plan->argument_bytes = given->argument_bytes;
  memcpy(plan->words, key->word, key->words * sizeof *key->word);
  memcpy(plan->words + key->words, given->arguments, given->argument_bytes);
  pthread_mutex_lock(&call->lock);
  if (call->plan_count == MOST_PLANS) drop_plans(call);
  plan->next = call->buckets[hash % BUCKETS];
  call->buckets[hash % BUCKETS] = plan;
  ++call->plan_count;
  pthread_mutex_unlock(&call->lock);
  return LAUNCHED;
}

static int launch(cubit_python_call* call, const Key* key) {
  _Alignas(16) unsigned char arguments[MOST_ARGUMENT_BYTES];
  cubit_launch how = {.size = sizeof how, .overlap = call->overlap};
  pthread_mutex_lock(&call->lock);
  const Plan* const plan = find_plan(call, key);
  cubit_kernel* const kernel = plan == NULL ? NULL : plan->kernel;
  const size_t workspace_bytes = plan == NULL ? 0 : plan->workspace_bytes;
  if (plan != NULL) {
    memcpy(arguments, plan->words + plan->key_words, plan->argument_bytes);
    how.device = plan->device;
  }
  pthread_mutex_unlock(&call->lock);
  if (kernel == NULL) return NO_PLAN;
  for (int i = 0; i < call->count; ++i) {
    if (key->tensors[i] == NULL) continue;
    const char* const data = (const char*)key->tensors[i]->data + key->tensors[i]->byte_offset;
    memcpy(arguments + call->offsets[i], &data, sizeof data);
  }
  const int32_t device_id = key->first->device_id;
  how.stream = current_stream(DL_CUDA, device_id);
  if (workspace_bytes != 0) {
    const Workspace workspace = find_workspace(device_id, how.stream);
    if (workspace.bytes < workspace_bytes) {
      missing = (cubit_python_missing){how.stream, workspace_bytes, device_id};
      return NO_WORKSPACE;
    }
    how.workspace = workspace.memory;
    how.workspace_bytes = workspace.bytes;
  }
  const cubit_status status = cubit_kernel_launch(kernel, arguments, &how);
  if (status == CUBIT_DEVICE_ERROR && workspace_bytes != 0) forget_workspace(device_id, how.stream);
  return status == CUBIT_OK ? LAUNCHED : LAUNCH_FAILED + (int)status;
}

/* Arguments: a call, a plan or 0, and the values of the call, each of which may be None. With a plan: adds the plan for
 * these values. Without: launches by the plan that was added before. Returns an int. */
CUBIT_API int cubit_python_launch(void* self, const FfiAny* arguments, int32_t count, FfiAny* result) {
  (void)self;
  cubit_python_call* const call = (cubit_python_call*)arguments[0].value.pointer;
  const cubit_python_plan* const plan = (const cubit_python_plan*)arguments[1].value.pointer;
  Key key;
  int outcome = count == 2 + call->count ? make_key(call, arguments + 2, &key) : TOO_LARGE;
  if (outcome == LAUNCHED) outcome = plan == NULL ? launch(call, &key) : add_plan(call, &key, plan);
  result->type = FFI_INT;
  result->padding = 0;
  result->value.integer = outcome;
  return 0;
}
