// The distribution of rows over threads that all operators with one row per block or group of warps share.
#pragma once

#include <cstdint>

#include "ops/operator.hpp"
#include "templates/quantisation/quantised_rows.h"

namespace cubit::ops::quantisation {

inline constexpr int kVectorColumns = 16;  ///< columns that a thread loads, computes and stores together
inline constexpr int kRowVectors = 4;      ///< vectors that a thread holds in registers
inline constexpr int kMostThreads = 1024;  ///< threads of a block
/// Threads of a block if a kernel computes its rows before it quantises them, which takes more than 64 registers.
inline constexpr int kMostComputingThreads = 512;

/// Throws Failure(invalid_argument) unless there are 0 to 2^31 - 1 rows, and the columns are a multiple of `multiple`
/// up to what a block of `most_threads` threads holds.
void check_row_sizes(std::int64_t rows, std::int64_t columns, int multiple, int most_threads = kMostThreads);

/// Vectors of a thread if rows are many: 64 bytes in flight.
constexpr int kUsualVectors = 2;

/// The threads of each row: 1 vector for each thread if the rows are so few that this does not fill the device, else
/// `usual_vectors`, and up to kRowVectors for the longest rows.
RowShape row_shape(int rows, int columns, const runtime::DeviceFacts& device, int most_threads = kMostThreads,
                   int usual_vectors = kUsualVectors);
runtime::LaunchShape launch_shape(const RowShape& shape);

/// The lines of a plan about rows and threads.
std::vector<Decision> row_decisions(int most_threads = kMostThreads);

}  // namespace cubit::ops::quantisation
