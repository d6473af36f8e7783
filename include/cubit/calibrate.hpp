// Calibration of activations for INT8 and FP8: statistics of what a layer receives, and quantisation ranges from them.
//
//   cubit::calibrate::Statistics statistics;
//   for (const cubit::calibrate::Tensor& batch : batches) statistics.add(batch);
//   const auto range = cubit::calibrate::choose_range(statistics, {.method = cubit::calibrate::Method::mse});
//
// Link libcubit_calibrate, which needs neither libcubit nor a GPU. Functions throw cubit::Error.
//
// Counts, minima, maxima and Statistics::moments are exact: they depend only on the values, not on the order of the
// values, on the number of threads or on how partial statistics are merged. Only Statistics::channel_moments may differ
// in the last bit, because the sums of a channel have about 100 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/cubit.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#define CUBIT_CALIBRATE_API __attribute__((visibility("default")))

namespace cubit::calibrate {

/// A tensor in host memory, dense and row-major. The last dimension counts channels, the other dimensions tokens.
struct Tensor {
  std::string_view type;  ///< as safetensors spells it: F64, F32, F16, BF16, F8_E4M3 or F8_E5M2
  std::span<const std::int64_t> shape;
  std::span<const std::byte> data;
};

/// Statistics that may be left out to save time. The ranges of the tensor, of channels and of tokens, and the counts
/// are always collected.
struct Collect {
  bool histogram = true;  ///< Statistics::histogram(), which every Method except minmax needs
  bool moments = true;    ///< mean and variance, of the tensor and of each channel
};

inline constexpr int kHistogramBins = 4096;  ///< bins of each sign

/// Counts of magnitudes. Bin i counts the values with i ≤ |x| · kHistogramBins / 2^exponent < i + 1, so a larger
/// exponent merges neighbouring bins exactly. The exponent is the least number with max |x| < 2^exponent, but at least
/// -100.
struct Histogram {
  int exponent = 0;
  std::span<const std::uint64_t> positive;  ///< bins of values ≥ 0
  std::span<const std::uint64_t> negative;  ///< bins of values < 0; empty in the histogram of token ranges
};

struct Moments {
  double mean = 0;
  double variance = 0;  ///< of the population: the mean of (x - mean)²
};

/// Statistics of the activations of one layer. A Statistics object is used by one thread at a time.
class CUBIT_CALIBRATE_API Statistics {
 public:
  explicit Statistics(Collect collect = {});
  Statistics(Statistics&&) noexcept;
  Statistics& operator=(Statistics&&) noexcept;
  ~Statistics();

  /// Adds a batch. Values that are not finite are counted and otherwise left out. Throws cubit::Error if the type is
  /// unknown, the data do not have the shape's size, or the number of channels differs from earlier batches.
  void add(const Tensor& batch, int threads = 1);
  /// Adds everything that `other` has seen. Throws cubit::Error if channels or Collect differ.
  void merge(const Statistics& other);

  const Collect& collect() const;
  std::uint64_t batches() const;
  std::uint64_t tokens() const;
  std::uint64_t channels() const;    ///< 0 before the first token
  std::uint64_t count() const;       ///< finite values
  std::uint64_t non_finite() const;  ///< NaNs and infinities
  double minimum() const;            ///< 0 if there are no finite values
  double maximum() const;            ///< 0 if there are no finite values
  Moments moments() const;

  /// One entry per channel. A channel without finite values has the minimum +infinity and the maximum -infinity.
  std::span<const double> channel_minima() const;
  std::span<const double> channel_maxima() const;
  std::vector<Moments> channel_moments() const;
  std::vector<double> channel_magnitudes() const;  ///< max |x| of each channel, 0 without finite values

  Histogram histogram() const;
  /// The histogram of each token's max |x|: the ranges that dynamic quantisation per token would use.
  Histogram token_ranges() const;

  struct Parts;  ///< the representation
  Parts& parts() { return *parts_; }
  const Parts& parts() const { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

enum class Method { minmax, percentile, entropy, mse };
enum class Format { int8, int8_asymmetric, e4m3 };

/// "minmax", "percentile", "entropy", "mse"; "int8", "int8_asymmetric", "e4m3". The parsers throw cubit::Error.
CUBIT_CALIBRATE_API std::string_view text_of(Method method);
CUBIT_CALIBRATE_API std::string_view text_of(Format format);
CUBIT_CALIBRATE_API Method parse_method(std::string_view text);
CUBIT_CALIBRATE_API Format parse_format(std::string_view text);

struct RangeChoice {
  Method method = Method::minmax;
  Format format = Format::int8;
  double percentile = 99.99;  ///< for Method::percentile: share of the values inside the range, above 0 to 100 percent
};

/// A quantisation range. A value x is stored as round(x / scale) + zero_point, limited to the format's codes.
struct Range {
  double low = 0;
  double high = 0;
  double scale = 1;    ///< high / 127, (high - low) / 255 or high / 448, at least 2^-126; 1 if low = high = 0
  int zero_point = 0;  ///< nonzero only for int8_asymmetric
  double clipped = 0;  ///< share of the values outside [low, high], estimated from the histogram
  double error = 0;    ///< mean squared error of quantisation / mean square, estimated from the histogram
};

/// Chooses a range for the whole tensor. Constant tensors, and tensors whose magnitudes are all at most 2^-112 (a
/// histogram's narrowest bin), get the range of Method::minmax from every method. `clipped` and `error` are 0 for these
/// tensors and for statistics without a histogram. Throws cubit::Error if there are no values, if a value is not
/// finite, if the method needs a histogram that was not collected, or if choice.percentile is not above 0 and at most
/// 100.
CUBIT_CALIBRATE_API Range choose_range(const Statistics& statistics, const RangeChoice& choice);
/// The range of Method::minmax for each channel, from the channel's finite values. A channel without finite values gets
/// a default Range. `clipped` and `error` are 0.
CUBIT_CALIBRATE_API std::vector<Range> channel_ranges(const Statistics& statistics, Format format);

/// One layer's range, for the functions below.
struct LayerRange {
  std::string layer;
  RangeChoice choice;
  Range range;
};

/// The ranges as a JSON text: an object with one member per layer, named by the layer.
CUBIT_CALIBRATE_API std::string ranges_json(std::span<const LayerRange> ranges);
/// Writes a safetensors file with the names of compressed-tensors: LAYER.input_scale (F32 [1]) and, for
/// int8_asymmetric, LAYER.input_zero_point (I8 [1]). If all layers have the same format, the file's metadata name it:
/// {"input_format": "int8"}. The file appears completely or not at all. Throws cubit::Error if a scale exceeds the
/// largest F32 number.
CUBIT_CALIBRATE_API void write_scales(const std::string& path, std::span<const LayerRange> ranges);

/// The statistics of one layer.
struct NamedStatistics {
  std::string layer;
  Statistics statistics;
};
/// write_statistics stores the statistics of several layers in one file, and read_statistics reads this file, for
/// example in another process. `notes` is any text of the caller, which the file's metadata keeps.
CUBIT_CALIBRATE_API void write_statistics(const std::string& path, std::span<const NamedStatistics> layers,
                                          const std::string& notes = {});
CUBIT_CALIBRATE_API std::vector<NamedStatistics> read_statistics(const std::string& path, std::string* notes = nullptr);

/// If `path` is a folder: the folder's files whose names end in .safetensors, sorted by name. Throws cubit::Error if
/// the folder has none. Any other path is returned as it is, without a check that the file exists.
CUBIT_CALIBRATE_API std::vector<std::string> activation_files(const std::string& path);

/// Collects statistics from activation files, which may be larger than memory. A file holds one batch. Its tensors are
/// named by the layer that receives them.
class CUBIT_CALIBRATE_API Collector {
 public:
  /// `threads`: 0 means all processors. `layers`: patterns with * and ?; a tensor that no pattern matches is left out.
  /// An empty list of patterns matches every tensor.
  explicit Collector(Collect collect = {}, int threads = 0, std::vector<std::string> layers = {});
  Collector(Collector&&) noexcept;
  Collector& operator=(Collector&&) noexcept;
  ~Collector();

  /// Throws cubit::Error if the file's header is damaged, a tensor that a pattern matches has no floating-point type,
  /// or a layer has another number of channels than in a file that was checked or added before. Reads only the header.
  void check_file(const std::string& path);
  /// Checks and adds a file. `progress` is called with the number of this file's bytes that have been read. Throws
  /// cubit::Error as check_file does, and if a file of the same name, without its folder, has been added; layers() and
  /// files() are then unchanged. After any other exception the collector has a part of the file and must not be used.
  void add_file(const std::string& path, const std::function<void(std::uint64_t)>& progress = {});

  /// Whether this file has been added, loaded or merged. Throws cubit::Error if the file of this name came from another
  /// folder, or if its size or the time of its last change differs now.
  bool has_file(const std::string& path) const;

  /// The layers in the order of their names, and the names of the files that were added, loaded or merged, without
  /// their folders.
  std::span<const NamedStatistics> layers() const;
  std::span<const std::string> files() const;

  /// `save` stores the layers and the names of the files. `load` first drops the layers and files of this collector,
  /// then restores what `save` stored. `load` throws cubit::Error if the stored statistics have another Collect than
  /// this collector, or if a collector with other patterns saved them.
  void save(const std::string& path) const;
  void load(const std::string& path);
  /// Adds the layers that match this collector's patterns from what another process or machine saved, with any
  /// patterns. Throws cubit::Error if Collect differs, if both have added a file of the same name, or if the saved
  /// collector has layers and none of them matches.
  void merge(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes activation files from a running inference engine: a file per batch, named batch_000000.safetensors and so on.
/// Numbers continue after the files that the folder has when the Recorder is created. Several Recorders, also of
/// several processes, may write to one folder: a number that another Recorder has taken is skipped. One thread at a
/// time may use a Recorder.
class CUBIT_CALIBRATE_API Recorder {
 public:
  /// Creates the folder if it does not exist.
  explicit Recorder(std::string folder);
  ~Recorder();  ///< drops a batch that was not ended

  /// Copies the input of a layer into the batch. Throws cubit::Error if the batch already has this layer.
  void add(const std::string& layer, const Tensor& input);
  /// Writes the batch: the file appears completely or not at all. Returns its path. A batch without tensors writes
  /// nothing and returns "".
  std::string end_batch();

 private:
  struct Copy;
  std::string folder_;
  std::vector<Copy> batch_;
  std::uint64_t next_ = 0;
};

}  // namespace cubit::calibrate
