/* Example: quantises rows of activations to int8 from C, and checks the codes.
 *
 * Each row gets a scale of its own. "plain_c cuda:0 sm_90a" runs on an H100; without arguments the program uses the CPU
 * device. The program releases every handle and every piece of device memory in the end. */
#include <cubit/cubit.h>
#include <cubit/quantize.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 2, COLUMNS = 64, SKIPPED = 77 /* the exit code that CTest takes for a skipped test */ };

static void check(cubit_status status) {
  if (status == CUBIT_OK) return;
  fprintf(stderr, "%s\n", cubit_last_error()->message);
  exit(status == CUBIT_COMPILER_UNAVAILABLE || status == CUBIT_DRIVER_UNAVAILABLE ? SKIPPED : 1);
}

static void* allocate(cubit_device* device, size_t bytes) {
  void* memory = NULL;
  check(cubit_device_allocate(device, bytes, &memory));
  return memory;
}

/* Row r has the values r + 1 and, at its first column, 127 times as much. So its scale is r + 1, the first code
 * is 127 and every other code is 1. */
static int count_wrong(const int8_t* codes, const float* scales) {
  int wrong = 0;
  for (int row = 0; row < ROWS; ++row) {
    wrong += scales[row] != (float)(row + 1);
    for (int column = 0; column < COLUMNS; ++column) wrong += codes[row * COLUMNS + column] != (column == 0 ? 127 : 1);
  }
  return wrong;
}

int main(int count, char** names) {
  cubit_device* device = NULL;
  cubit_engine* engine = NULL;
  cubit_kernel* kernel = NULL;
  check(cubit_device_open(count > 2 ? names[1] : "cpu:sm_80", &device));
  check(cubit_engine_create(NULL, &engine));
  check(cubit_engine_get(engine, "quantize:input=bf16", count > 2 ? names[2] : "cpu:sm_80", &kernel));
  check(cubit_kernel_prepare(kernel, device)); /* loads the code, so that the launch does not */

  static const uint16_t ones_in_bf16[ROWS] = {0x3f80, 0x4000}, large_in_bf16[ROWS] = {0x42fe, 0x437e};
  static uint16_t input[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i)
    input[i] = i % COLUMNS == 0 ? large_in_bf16[i / COLUMNS] : ones_in_bf16[i / COLUMNS];

  static int8_t codes[ROWS * COLUMNS];
  static float scales[ROWS];
  void* const rows = allocate(device, sizeof input);
  check(cubit_device_upload(device, rows, input, sizeof input, NULL));
  cubit_quantize_arguments arguments = {0};
  arguments.size = sizeof arguments;
  arguments.input = rows;
  arguments.result.output = allocate(device, sizeof codes);
  arguments.result.scales = allocate(device, sizeof scales);
  arguments.input_stride = arguments.result.output_stride = COLUMNS;
  arguments.rows = ROWS;
  arguments.columns = COLUMNS;

  cubit_launch launch = {0};
  launch.size = sizeof launch;
  launch.device = device;
  check(cubit_kernel_launch(kernel, &arguments, &launch)); /* quantize needs no workspace */
  check(cubit_device_download(device, codes, arguments.result.output, sizeof codes, NULL));
  check(cubit_device_download(device, scales, arguments.result.scales, sizeof scales, NULL));
  check(cubit_device_synchronise(device, NULL));
  const int wrong = count_wrong(codes, scales);
  printf("%d codes and %d scales, %d wrong\n", ROWS * COLUMNS, ROWS, wrong);

  check(cubit_device_free(device, rows));
  check(cubit_device_free(device, arguments.result.output));
  check(cubit_device_free(device, arguments.result.scales));
  cubit_kernel_release(kernel);
  cubit_engine_release(engine);
  cubit_device_release(device);
  return wrong == 0 ? 0 : 1;
}
