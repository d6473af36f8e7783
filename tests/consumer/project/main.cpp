#include <cubit/gqa_decode.h>

#include <cubit/check.hpp>
#include <iostream>

int main() {
  std::cout << cubit_version() << " " << cubit::canonical("gqa_decode:kv=int4_rows,groups=4,heads_per_kv=8") << "\n";
  const auto problem = cubit::Problem::random("stream_read", {{"bytes", 4096}}, 1);
  if (problem.bytes_read() != 4096) return 1;
}
