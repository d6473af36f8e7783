#include "calibrate/ranges/search.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "calibrate/ranges/levels.hpp"
#include "calibrate/ranges/losses.hpp"

namespace cubit::calibrate {
namespace {

constexpr double kRelativeTie = 1e-9;  ///< losses this close count as equal
constexpr double kAbsoluteTie = 1e-12;
constexpr int kMostRounds = 8;
/// Entropy needs a range of at least as many bins as INT8 has levels of one sign: narrower ranges have a level for
/// each bin, and nothing would be lost in them.
constexpr int kLeastEntropyBins = 128;

class Search {
 public:
  Search(const Density& density, Method method, Format format)
      : density_(density),
        levels_(format),
        method_(method),
        low_(std::min(density.first_bin(), 0)),
        high_(std::max(density.end_bin(), 0)) {}

  BinRange symmetric() const {
    const int widest = std::max(-low_, high_);
    const int width = narrowest(widest, [](int candidate) { return BinRange{-candidate, candidate}; });
    return {-width, width};
  }

  BinRange asymmetric() const {
    BinRange range = {low_, high_};
    for (int round = 0; round < kMostRounds; ++round) {
      const BinRange before = range;
      range.high = narrowest(high_, [&](int candidate) { return BinRange{range.low, candidate}; });
      range.low = -narrowest(-low_, [&](int candidate) { return BinRange{-candidate, range.high}; });
      if (before.low == range.low && before.high == range.high) break;
    }
    return range;
  }

 private:
  double loss(const BinRange& range) const {
    if (range.high <= range.low) return std::numeric_limits<double>::infinity();
    if (method_ == Method::mse) return squared_error(density_, levels_, range.low, range.high);
    const int bins = levels_.is_symmetric ? range.high : (range.high - range.low) / 2;
    if (bins < kLeastEntropyBins) return std::numeric_limits<double>::infinity();
    return divergence(density_, levels_, range.low, range.high);
  }

  /// The narrowest of the candidates 0 … widest that lose least; `widest` if all losses are infinite.
  template <class MakeRange>
  int narrowest(int widest, MakeRange make_range) const {
    std::vector<double> losses;
    for (int candidate = 0; candidate <= widest; ++candidate) losses.push_back(loss(make_range(candidate)));
    const double least = *std::min_element(losses.begin(), losses.end());
    if (least == std::numeric_limits<double>::infinity()) return widest;
    const double accepted = least + kRelativeTie * least + kAbsoluteTie;
    const auto found = std::find_if(losses.begin(), losses.end(), [&](double value) { return value <= accepted; });
    return static_cast<int>(found - losses.begin());
  }

  const Density& density_;
  Levels levels_;
  Method method_;
  int low_;
  int high_;
};

}  // namespace

BinRange search_range(const Density& density, Method method, Format format) {
  const Search search(density, method, format);
  return format == Format::int8_asymmetric ? search.asymmetric() : search.symmetric();
}

}  // namespace cubit::calibrate
