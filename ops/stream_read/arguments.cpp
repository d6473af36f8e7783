// The argument table of stream_read: the tensors and numbers of cubit_stream_read_arguments.
#include <cubit/stream_read.h>

#include "base/lifetime.hpp"
#include "ops/stream_read/stream_read.hpp"

namespace cubit::ops {

const ArgumentTable& stream_read_arguments() {
  using Struct = cubit_stream_read_arguments;
  static const auto& table = never_destroyed(ArgumentTable{
      "cubit_stream_read_arguments",
      sizeof(Struct),
      {input("source", "U8", shape("[bytes]"), CUBIT_MEMBER(source), "the buffer").unless(CUBIT_MEMBER(bytes)),
       output("checksums", "U32", shape("[4096]"), CUBIT_MEMBER(checksums),
              "numbers whose exclusive or is that of the source's words"),
       number("bytes", "int64", CUBIT_MEMBER(bytes), "bytes of the buffer, a multiple of 16")}});
  return table;
}

}  // namespace cubit::ops
