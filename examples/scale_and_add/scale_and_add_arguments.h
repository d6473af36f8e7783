// The kernel's one argument, shared by host and device: y[r, c] = x[r, c] * scale[r] + addend[r, c].
#pragma once

struct ScaleAndAddArguments {
  const void* x;       // fp16 [rows, plan::kColumns], dense, 16-byte aligned
  const void* scale;   // fp16 [rows]
  const void* addend;  // same shape and layout as x
  void* y;             // same shape and layout as x
};
