// The arguments of a KV cache, for the argument tables of the operators that have one in their struct.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/argument_table.hpp"

namespace cubit::ops::kv_cache {

/// The shapes of the rows of keys and of values, for every format of a row.
std::vector<ShapeRule> key_shapes();
std::vector<ShapeRule> value_shapes();

/// Adds keys and values of a cubit_kv_cache at `offset`, as `kind`.
void add_caches(std::vector<Argument>& arguments, std::size_t offset, ArgumentKind kind);
/// Adds the scales of keys and values, a cubit_kv_scales at `offset`. `meaning` says whether a launch writes them.
void add_scales(std::vector<Argument>& arguments, std::size_t offset, ArgumentKind kind, std::string_view meaning);
/// Adds the page table and the numbers of a cubit_kv_cache at `offset`.
void add_cache_numbers(std::vector<Argument>& arguments, std::size_t offset);

}  // namespace cubit::ops::kv_cache
