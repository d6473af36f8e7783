/* A C program against the installed package: prints the version of the library, a descriptor in canonical order, and a
 * number that a device has stored. The first argument names the device. */
#include <cubit/cubit.h>
#include <cubit/gqa_decode.h>

#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "%s\n", cubit_last_error()->message);
  return 1;
}

int main(int count, char** arguments) {
  const char* text = NULL;
  int number = 42;
  if (cubit_descriptor_canonical("gqa_decode:kv=int4_rows,groups=4,heads_per_kv=8", &text) != CUBIT_OK) return fail();
  printf("%d %s", cubit_version(), text);
  if (count > 1) {
    cubit_device* device = NULL;
    void* memory = NULL;
    if (cubit_device_open(arguments[1], &device) != CUBIT_OK) return fail();
    if (cubit_device_allocate(device, sizeof number, &memory) != CUBIT_OK) return fail();
    if (cubit_device_upload(device, memory, &number, sizeof number, NULL) != CUBIT_OK) return fail();
    number = 0;
    if (cubit_device_download(device, &number, memory, sizeof number, NULL) != CUBIT_OK) return fail();
    if (cubit_device_synchronise(device, NULL) != CUBIT_OK) return fail();
    if (cubit_device_free(device, memory) != CUBIT_OK) return fail();
    cubit_device_release(device);
  }
  printf(" %d\n", number);
  return 0;
}
