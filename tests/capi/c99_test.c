/* Proves that cubit.h is C99 and usable from C alone: this file is compiled as strict C99, linked to libcubit only, and
 * run. */
#include <cubit/cubit.h>
#include <cubit/gqa_decode.h>
#include <cubit/stream_read.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

int main(void) {
  const char* text = NULL;
  cubit_launch launch = {sizeof(cubit_launch), NULL, NULL, NULL, 0, 0};
  expect(cubit_version() == CUBIT_VERSION_MAJOR * 10000 + CUBIT_VERSION_MINOR * 100 + CUBIT_VERSION_PATCH, "version");
  expect(cubit_last_error()->status == CUBIT_OK && strcmp(cubit_last_error()->message, "") == 0, "no error at first");
  expect(cubit_architectures(&text) == CUBIT_OK && strstr(text, "\"sm_90a\"") != NULL, "architectures");
  expect(cubit_operators(&text) == CUBIT_OK && strstr(text, "\"stream_read\"") != NULL, "operators");
  expect(cubit_kernel_launch(NULL, NULL, &launch) == CUBIT_INVALID_ARGUMENT, "launch of NULL");
  expect(strstr(cubit_last_error()->message, "NULL was given") != NULL, "its sentence");
  return failures;
}
