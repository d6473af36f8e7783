// Problems of the operator gqa_decode. The inputs of a problem are dense host tensors in a fixed order: query, key,
// value, then the optional tensors that the descriptor or the caller has.
#pragma once

#include <mutex>
#include <vector>

#include "check/gqa_decode/reference.hpp"
#include "check/kv_cache/host_cache.hpp"
#include "check/random.hpp"

namespace cubit::check::gqa_decode {

/// The shape of a made-up query. If the descriptor has one query token, the shape has no dimension of query tokens.
std::vector<std::int64_t> query_shape(const GqaDecode& descriptor, std::int64_t batch, std::int64_t query_heads,
                                      int channels);
/// The names of a query's dimensions, for errors.
const char* query_dimensions(const GqaDecode& descriptor);
/// Checks the tensor `mask`, null if it is not given. Throws Failure(invalid_argument) if the tensor does not fit the
/// descriptor, or is missing.
void check_mask(const GqaDecode& descriptor, const Tensor* mask, std::int64_t batch);
/// Mask words of random trees, [batch, query_tokens]: a token attends to itself, to its parent, and to every token that
/// the parent attends to.
std::unique_ptr<char[]> make_trees(const GqaDecode& descriptor, std::int64_t batch, Random& random);

inline constexpr const char* kSlopes = "alibi_slopes";
inline constexpr const char* kSinks = "sinks";
inline constexpr const char* kParameters = "score_parameters";
inline constexpr const char* kPaddedRows = "padded_rows";  ///< a number, see LaunchNumbers::padded_rows

/// Throws Failure(invalid_argument) for a window of less than one token.
void require_window(double window);

/// The scalar arguments of a launch; see cubit_gqa_decode_arguments.
struct LaunchNumbers {
  double softmax_scale = 0;
  bool with_lse = false;
  bool padded_rows = false;  ///< the last dimension of key and value may be longer than the format's row
  std::int32_t splits = 0;

  double soft_cap = 0;
  std::int32_t window = 0;
  std::int32_t kept_tokens = 0;

  kv_cache::CacheNumbers cache;

  static std::string names(const GqaDecode& descriptor);
  explicit LaunchNumbers(const GqaDecode& descriptor);
  /// Sets the number `name`. Returns false if the descriptor has no number of this name.
  bool set(const GqaDecode& descriptor, std::string_view name, double value);
};

class GqaProblem final : public Problem {
 public:
  /// Checks all tensors and numbers. Throws Failure(invalid_argument).
  GqaProblem(GqaDecode descriptor, Tensors inputs, const LaunchNumbers& numbers);

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override;
  std::size_t bytes_written() const override;
  double operations() const override;
  std::vector<std::byte> arguments(std::span<void* const> device_data) const override;
  Comparison compare(std::span<const void* const> got) const override;

 private:
  const Tensor& query() const { return inputs_.list()[0]; }
  const Tensor& key() const { return inputs_.list()[1]; }
  const Tensor& cache(std::size_t which) const {
    return inputs_.list()[1 + which];
  }  ///< the cache of keys (0) or values (1)
  int value_channels() const { return descriptor_.value_channels(); }
  const Tensor* find(std::string_view name) const { return inputs_.find(name); }  ///< null if it is not given
  const Tensor* lengths() const { return find("lengths"); }
  std::int64_t batch() const { return query().shape[0]; }
  std::int64_t query_heads() const { return query().shape[query().shape.size() - 2]; }
  std::int64_t tokens() const { return shape_.max_length; }
  std::int64_t kv_heads() const { return shape_.kv_heads; }
  int length(std::int64_t sequence) const;
  std::size_t cached_rows() const;  ///< rows of keys that are read, over all sequences and KV heads; as many of values
  std::size_t scale_bytes_read(const kv_cache::CacheFormats& formats, std::size_t which) const;
  void check();
  void check_query() const;
  void check_roles() const;
  void check_per_head(bool wanted, const char* name, const char* field) const;
  ScoreRules score_rules(std::int64_t head) const;
  void check_pages() const;
  std::int64_t read_window() const;
  bool needs_page(std::int64_t sequence, std::int64_t first) const;
  struct KvHead {
    std::int64_t sequence = 0;
    std::int64_t head = 0;
  };
  /// The rows of keys (0) or values (1).
  HeadRows rows_of(std::size_t which, const KvHead& place) const;
  void check_cache(std::size_t which);
  /// The query row of output `item`, which numbers (sequence, query token, head). Writes the row to `channels`.
  QueryRow query_row(std::int64_t item, double* channels) const;
  /// The error of one head and its tolerance: of the output in the norm of Problem::compare, or of the log-sum-exp in
  /// absolute terms, whichever is the larger share of its tolerance.
  struct HeadError {
    double error = 0;
    double tolerance = 0;
    double share() const { return error / tolerance; }
  };
  /// The result of the reference for one head. Errors of the output are relative to `scale`.
  struct ExpectedHead {
    std::vector<double> output;
    double lse = 0;
    double scale = 0;
    double tolerance = 0;
  };
  /// The heads by item. The first call computes the reference; later calls, for the results of other kernels, find it.
  const std::vector<ExpectedHead>& expected() const;
  /// Computes `count` of the query rows that attend to a KV head, from number `first` on. `expected` is by item.
  void expect_heads(const KvHead& place, int first, int count, std::span<ExpectedHead> expected) const;
  ExpectedHead expected_head(ReferenceHead reference) const;
  HeadError compare_head(std::int64_t item, const ExpectedHead& expected, std::span<const void* const> got) const;

  GqaDecode descriptor_;
  kv_cache::CacheShape shape_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  LaunchNumbers numbers_;
  mutable std::once_flag has_expected_;
  mutable std::vector<ExpectedHead> expected_;
};

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);
/// See OperatorProblems::fit.
std::string fit(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);

std::string random_help();
/// The cases of the tables in bench/results.
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::gqa_decode
