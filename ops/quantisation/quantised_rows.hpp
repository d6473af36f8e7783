// What operators that quantise rows share: fields of descriptors, rows of argument tables, the plan header, and checks.
#pragma once

#include <cubit/quantisation.hpp>

#include <string_view>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/plan_header.hpp"
#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"
#include "ops/quantisation/row_shape.hpp"
#include "templates/quantisation/quantised_rows.h"

namespace cubit::ops::quantisation {

/// The field `output` of operators whose result is always quantised, and of those whose result need not be.
template <class Descriptor>
Field<Descriptor> output_field(bool is_always_quantised) {
  if (is_always_quantised) {
    return word_field<Descriptor, Quantised>({"output", "int8, fp8_e4m3", "int8", "type of the quantised rows"},
                                             &Descriptor::output,
                                             {{"int8", Quantised::int8}, {"fp8_e4m3", Quantised::fp8_e4m3}});
  }
  return word_field<Descriptor, Quantised>(
      {"output", "int8, fp8_e4m3, unquantised", "int8", "type of the result; unquantised is the type of the input"},
      &Descriptor::output,
      {{"int8", Quantised::int8}, {"fp8_e4m3", Quantised::fp8_e4m3}, {"unquantised", Quantised::none}});
}

/// The fields of RowQuantisation.
template <class Descriptor>
std::vector<Field<Descriptor>> result_fields(bool is_always_quantised) {
  return {
      output_field<Descriptor>(is_always_quantised),
      word_field<Descriptor, ScaleScope>(
          {"scale", "token, tensor", "token", "a scale computed from each row, or one given scale"}, &Descriptor::scale,
          {{"token", ScaleScope::token}, {"tensor", ScaleScope::tensor}}),
      word_field<Descriptor, QuantisationScheme>(
          {"scheme", "symmetric, asymmetric", "symmetric",
           "asymmetric writes a zero point per row (for output=int8 and scale=token)"},
          &Descriptor::scheme,
          {{"symmetric", QuantisationScheme::symmetric}, {"asymmetric", QuantisationScheme::asymmetric}}),
      word_field<Descriptor, RowLayout>({"layout", "row, col32", "row", "order of the result in memory"},
                                        &Descriptor::layout, {{"row", RowLayout::row}, {"col32", RowLayout::col32}})};
}

/// Throws Failure(invalid_argument) for fields that contradict one another in the descriptor `text`.
void check_fields(const RowQuantisation& quantisation, std::string_view text);

/// Adds the tensors of cubit_quantised_rows, which is a member `result` at `offset` of the argument struct.
void add_result(std::vector<Argument>& arguments, std::size_t offset, bool is_always_quantised);

/// Adds the roles Scaling and Layout, and kMostThreads.
void add_roles(codegen::PlanHeader& header, const RowQuantisation& quantisation,
               const codegen::Architecture& architecture, int most_threads = kMostThreads);

/// The lines of a plan about the quantised result.
std::vector<Decision> result_decisions(const RowQuantisation& quantisation, const codegen::Architecture& architecture);

/// The columns of a row are a multiple of this number.
int column_multiple(const RowQuantisation& quantisation);

/// Checks the alignment and the stride of the result. Throws Failure(invalid_argument).
void check_result(const RowQuantisation& quantisation, const cubit_quantised_rows& result, std::int64_t rows,
                  std::int64_t columns);
QuantisedRows kernel_rows(const RowQuantisation& quantisation, const cubit_quantised_rows& result);

}  // namespace cubit::ops::quantisation
