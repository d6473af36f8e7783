#include <cubit/gqa_decode.h>

#include <cubit/cubit.hpp>
#include <iostream>

int main() {
  std::cout << cubit_version() << " " << cubit::canonical("gqa_decode:kv=int4_rows,groups=4,heads_per_kv=8") << "\n";
}
