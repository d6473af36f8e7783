#include "workspaces.h"

#include <pthread.h>

enum { MOST_WORKSPACES = 256 };

static pthread_mutex_t workspace_lock = PTHREAD_MUTEX_INITIALIZER;
static Workspace workspaces[MOST_WORKSPACES];
static size_t workspace_count;

int cubit_python_set_workspace(int32_t device_id, void* stream, void* memory, size_t bytes) {
  pthread_mutex_lock(&workspace_lock);
  size_t at = 0;
  while (at < workspace_count && (workspaces[at].device_id != device_id || workspaces[at].stream != stream)) ++at;
  const int fits = at < MOST_WORKSPACES;
  if (fits) {
    workspaces[at] = (Workspace){device_id, stream, memory, bytes};
    if (at == workspace_count) ++workspace_count;
  }
  pthread_mutex_unlock(&workspace_lock);
  return fits;
}

Workspace find_workspace(int32_t device_id, void* stream) {
  Workspace found = {device_id, stream, NULL, 0};
  pthread_mutex_lock(&workspace_lock);
  for (size_t i = 0; i < workspace_count; ++i) {
    if (workspaces[i].stream == stream && workspaces[i].device_id == device_id) {
      found = workspaces[i];
      break;
    }
  }
  pthread_mutex_unlock(&workspace_lock);
  return found;
}

void forget_workspace(int32_t device_id, void* stream) {
  pthread_mutex_lock(&workspace_lock);
  for (size_t i = 0; i < workspace_count; ++i) {
    if (workspaces[i].stream == stream && workspaces[i].device_id == device_id) workspaces[i].bytes = 0;
  }
  pthread_mutex_unlock(&workspace_lock);
}
