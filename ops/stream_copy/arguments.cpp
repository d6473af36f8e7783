// The argument table of stream_copy: the tensors and numbers of cubit_stream_copy_arguments.
#include <cubit/stream_copy.h>

#include "base/lifetime.hpp"
#include "ops/stream_copy/stream_copy.hpp"

namespace cubit::ops {

const ArgumentTable& stream_copy_arguments() {
  using Struct = cubit_stream_copy_arguments;
  static const auto& table = never_destroyed(ArgumentTable{
      "cubit_stream_copy_arguments",
      sizeof(Struct),
      {input("source", "U8", shape("[bytes]"), CUBIT_MEMBER(source), "the buffer").unless(CUBIT_MEMBER(bytes)),
       output("destination", "U8", shape("[bytes]"), CUBIT_MEMBER(destination), "the copy").unless(CUBIT_MEMBER(bytes)),
       number("bytes", "int64", CUBIT_MEMBER(bytes), "bytes of the buffer, a multiple of 16")}});
  return table;
}

}  // namespace cubit::ops
