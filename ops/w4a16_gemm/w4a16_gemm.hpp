// Inside the operator w4a16_gemm: the descriptor's rules and facts. The members of sets are in members.hpp.
// Kernel families, which plan, write source and launch, are in families.hpp.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include <array>
#include <string_view>
#include <vector>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& w4a16_gemm_operator();

namespace w4a16_gemm {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();
/// The pointers of a launch that the descriptor needs, and those that it does not take.
PointerChecks pointer_checks(const W4a16Gemm& descriptor);

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<W4a16Gemm>>& fields();

/// Throws Failure(invalid_argument) with the rule that `text` breaks.
W4a16Gemm parse(std::string_view text);
/// Checks the rules between fields of a descriptor that somebody wrote as `text`. Throws as parse does.
void check_rules(const W4a16Gemm& descriptor, std::string_view text);

inline constexpr std::array kTileRows = {8, 16, 32, 64, 80, 128, 144, 192, 256};
inline constexpr std::array kTileColumns = {256, 224, 160, 128, 96, 64, 32};

/// Whether some kernel family serves the descriptor, or a member of its set, on some architecture: check_rules() throws
/// nothing.
bool is_served(const W4a16Gemm& descriptor);

bool is_narrow(const W4a16Gemm& descriptor);        ///< blocks have fewer than 256 columns
bool has_many_rows(const W4a16Gemm& descriptor);    ///< tiles have more than 64 rows, as family sm90_persistent alone
bool has_words_by_n(const W4a16Gemm& descriptor);   ///< a word of qweight holds 8 neighbouring n's, not k's: awq
bool stages_scales(const W4a16Gemm& descriptor);    ///< scales and zeros are copied with the words of their k's
bool stores_zeros(const W4a16Gemm& descriptor);     ///< else every zero is zero_offset
int zero_offset(const W4a16Gemm& descriptor);       ///< added to a stored zero to get the zero that is meant
int word_weights(const W4a16Gemm& descriptor);      ///< weights in a word of qweight, and zeros in a word of qzeros
int groups_of(const W4a16Gemm& descriptor, int k);  ///< groups of all of k
int stage_groups(const W4a16Gemm& descriptor);      ///< groups of a stage; 1 if one group is all of k
int output_columns(const W4a16Gemm& descriptor, int n);  ///< of n columns of the weights, of all layers

/// The member of the descriptor's set that launches with the sizes m (0 is as 1), n and k take; the descriptor itself
/// if it names one kernel. Throws Failure(invalid_argument) if a size is missing, if there is another one, and as
/// check_sizes does; Failure(unsupported) where no member has a kernel.
W4a16Gemm suggest(const W4a16Gemm& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device);

/// Throws Failure(invalid_argument) if `decomposition` is no cubit_w4a16_decomposition, or if no kernel of the
/// descriptor has that decomposition.
void check_decomposition(const W4a16Gemm& descriptor, int decomposition);

/// Columns of each layer; 0 for a layer that there is not.
using LayerColumns = std::array<std::int64_t, 3>;
std::int64_t columns_of_layers(const LayerColumns& columns);  ///< of all of them

/// Throws Failure(invalid_argument) for numbers of columns of layers that the descriptor rules out. Descriptors of one
/// layer have no rule for the first number here: see check_sizes().
void check_layers(const W4a16Gemm& descriptor, const LayerColumns& columns);

/// Throws Failure(invalid_argument) for sizes that the descriptor rules out, of launches and of problems. `n`: columns
/// of all layers.
void check_sizes(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k);
/// Throws Failure(invalid_argument) if rows of words of a layer of `n` columns are not as aligned as the descriptor
/// says, which is a rule of launches alone.
void check_rows_of_words(const W4a16Gemm& descriptor, std::int64_t n);

}  // namespace w4a16_gemm
}  // namespace cubit::ops
