/* The workspaces of this process: one for each stream of each GPU. Python and JAX share them. */
#ifndef CUBIT_PYTHON_WORKSPACES_H
#define CUBIT_PYTHON_WORKSPACES_H

#include <cubit/cubit.h>

typedef struct Workspace {
  int32_t device_id;
  void* stream;
  void* memory;
  size_t bytes;
} Workspace;

/* The workspace of a stream; of 0 bytes if the stream has none. */
Workspace find_workspace(int32_t device_id, void* stream);

/* Makes `memory` the workspace of a stream. A smaller one stays allocated: graphs may contain its address. Returns 0 if
 * the process has too many workspaces. */
CUBIT_API int cubit_python_set_workspace(int32_t device_id, void* stream, void* memory, size_t bytes);

/* A launch that failed halfway may leave the workspace without its zeros, so the stream's next launch takes another. */
void forget_workspace(int32_t device_id, void* stream);

#endif
