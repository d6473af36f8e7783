// The operator's Problem: dense host tensors in a fixed order: query, key, value, then those that there are of the
// rest.
#pragma once

#include "check/gqa_decode/reference.hpp"
#include "check/kv_cache/host_cache.hpp"
#include "check/random.hpp"

namespace cubit::check::gqa_decode {

/// Of a made-up query, and what a query's dimensions are called: with one query token that of tokens may be left out,
/// and is where queries are made up.
std::vector<std::int64_t> query_shape(const GqaDecode& descriptor, std::int64_t batch, std::int64_t query_heads,
                                      int channels);
const char* query_dimensions(const GqaDecode& descriptor);
/// `mask` may be null. Throws Failure(invalid_argument) where the descriptor wants it otherwise.
void check_mask(const GqaDecode& descriptor, const Tensor* mask, std::int64_t batch);
/// Masks of random trees, [batch, query_tokens] words: a token sees itself, its parent and what that sees.
std::unique_ptr<char[]> make_trees(const GqaDecode& descriptor, std::int64_t batch, Random& random);

/// What a launch takes beside tensors: see cubit_gqa_decode_arguments.
struct LaunchNumbers {
  double softmax_scale = 0;
  bool with_lse = false;
  std::int32_t splits = 0;

  double soft_cap = 0;
  std::int32_t window = 0;
  std::int32_t kept_tokens = 0;

  kv_cache::CacheNumbers cache;

  static std::string names(const GqaDecode& descriptor);
  explicit LaunchNumbers(const GqaDecode& descriptor);
  /// False if there is no number of this name.
  bool set(const GqaDecode& descriptor, std::string_view name, double value);
};

class GqaProblem final : public Problem {
 public:
  /// Checks everything; throws Failure(invalid_argument).
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
  const Tensor& cache(std::size_t which) const { return inputs_.list()[1 + which]; }  ///< of keys (0) or of values (1)
  int value_channels() const { return descriptor_.value_channels(); }
  const Tensor* find(std::string_view name) const { return inputs_.find(name); }  ///< null: there is none
  const Tensor* lengths() const { return find("lengths"); }
  std::int64_t batch() const { return query().shape[0]; }
  std::int64_t query_heads() const { return query().shape[query().shape.size() - 2]; }
  std::int64_t tokens() const { return shape_.max_length; }
  std::int64_t kv_heads() const { return shape_.kv_heads; }
  int length(std::int64_t sequence) const;
  std::size_t cached_rows() const;  ///< of keys, or of values, that are seen, over all sequences and KV heads
  std::size_t scale_bytes_read(const kv_cache::CacheFormats& formats, std::size_t which) const;
  void check();
  void check_query() const;
  void check_roles() const;
  void check_per_head(bool wanted, const char* name, const char* field) const;
  ScoreRules score_rules(std::int64_t head) const;
  void check_pages() const;
  std::int64_t read_window() const;
  bool needs_page(std::int64_t sequence, std::int64_t first) const;
  /// Of keys (0) or of values (1), the rows of a sequence's KV head.
  HeadRows rows_of(std::size_t which, std::int64_t sequence, std::int64_t kv_head) const;
  void check_cache(std::size_t which) const;
  /// The output of (sequence, query token, head) number `item`, as it should be.
  ReferenceHead reference_of(std::int64_t item) const;
  /// In the norm of the design, or of the log-sum-exp absolute, whichever is the larger share of what it may be.
  struct HeadError {
    double error = 0;
    double tolerance = 0;
    double share() const { return error / tolerance; }
  };
  HeadError compare_head(std::int64_t item, std::span<const void* const> got) const;

  GqaDecode descriptor_;
  kv_cache::CacheShape shape_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  LaunchNumbers numbers_;
};

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& sizes, std::uint64_t seed);

std::string random_help();
/// The table of docs/performance/gqa_decode.md.
std::vector<BenchCase> bench_cases();

}  // namespace cubit::check::gqa_decode
