// Small PTX kernels that run on both the CPU device and a GPU, with their input and the rule for comparing results.
//
// A case is one instruction with its modifiers, over corner values, seeded random values, or its whole domain. The same
// code makes the table in conformance_record, which runs it on a GPU, and in conformance_test, which runs it on the CPU
// device. Case::identity() ties a recorded result to its kernel and input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::conformance {

/// How far a result may be from the recorded result.
struct Rule {
  enum class Kind {
    exact,   ///< bit for bit
    number,  ///< any NaN equals any NaN; otherwise bit for bit
    near,    ///< Within the widest of `ulps` units in the last place, `absolute` and `relative`, plus half a unit for
             ///< the rounding of the CPU device, which computes exactly. Any NaN equals any NaN.
    matrix,  ///< bit for bit, and within sum_bound() of the exact product; see runtime/cpu/arithmetic/tensor_core.hpp
  };
  Kind kind = Kind::exact;
  std::string_view format = {};  ///< format of each result: "f16", "bf16", "f32", "f64"
  double ulps = 0;
  double absolute = 0;
  double relative = 0;
};

/// For mma: shape and formats of the operands, to compute the exact product and the bound.
struct MatrixFacts {
  std::string shape = {};  ///< "m16n8k16"
  std::string a = {};      ///< "f16", "e4m3", "s8"
  std::string b = {};
  std::string c = {};
  int registers[3] = {};  ///< registers of A, B and C
};

struct Case {
  std::string name = {};    ///< "cvt.rn.bf16x2.f32"
  std::string kernel = {};  ///< the whole PTX text; entry point `kernel`(input, output)
  unsigned threads = 32;
  unsigned blocks = 1;
  std::vector<std::byte> input = {};
  std::size_t output_bytes = 0;
  Rule rule = {};
  MatrixFacts matrix = {};
  /// Computes the output that the PTX ISA states, with a model that is independent of the CPU device. Cases recorded
  /// before there were models have none.
  std::function<std::vector<std::byte>()> model = {};

  /// Hash of the kernel, the launch and the input.
  std::uint64_t identity() const;
};

/// FNV-1a.
std::uint64_t hash(const std::byte* data, std::size_t bytes, std::uint64_t seed = 0xcbf29ce484222325);

/// The value of all result bytes before the kernel runs.
inline constexpr std::byte kUnwritten{0xcd};

using Cases = std::vector<Case>;

// Functions that add cases, one per file. conformance_test has a test for each kind of case.
void add_integer(Cases& cases);
void add_bits(Cases& cases);
void add_float(Cases& cases);
void add_half(Cases& cases);
void add_functions(Cases& cases);
void add_convert(Cases& cases);
void add_move(Cases& cases);
void add_warp(Cases& cases);
void add_memory(Cases& cases);
void add_atomic(Cases& cases);
void add_matrix(Cases& cases);
void add_carry(Cases& cases);
void add_directed(Cases& cases);
void add_compare(Cases& cases);
void add_int4(Cases& cases);
void add_double(Cases& cases);
void add_mbarrier(Cases& cases);
void add_bulk(Cases& cases);
void add_cluster(Cases& cases);
void add_wgmma(Cases& cases);
void add_wgmma_bytes(Cases& cases);

struct Kind {
  const char* name;
  void (*add)(Cases& cases);
  bool has_models = false;
};
inline constexpr Kind kKinds[] = {{"integer", add_integer},
                                  {"bits", add_bits},
                                  {"float", add_float},
                                  {"half", add_half},
                                  {"functions", add_functions},
                                  {"convert", add_convert},
                                  {"move", add_move},
                                  {"warp", add_warp},
                                  {"memory", add_memory},
                                  {"atomic", add_atomic},
                                  {"matrix", add_matrix},
                                  {"carry", add_carry, true},
                                  {"directed", add_directed, true},
                                  {"compare", add_compare, true},
                                  {"int4", add_int4, true},
                                  {"double", add_double, true},
                                  {"mbarrier", add_mbarrier, true},
                                  {"bulk", add_bulk, true},
                                  {"cluster", add_cluster, true},
                                  {"wgmma", add_wgmma, true},
                                  {"wgmma_bytes", add_wgmma_bytes, true}};

}  // namespace cubit::conformance
