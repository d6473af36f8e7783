// Copies boxes of tensors (TMA). PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "prefetch",
// "Tensors"; CUDA C++ Programming Guide, "The Swizzle Modes".
//
// A box is cut into strips that are contiguous in global and in shared memory: rows, or 16-byte chunks of rows if the
// map has a swizzle.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/encoded_map.hpp"
#include "runtime/cpu/helpers/bulk.hpp"
#include "runtime/cpu/helpers/swizzle.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

constexpr std::uint64_t kBoxAlignment = 128;  // in shared memory

/// The instruction and lane that are being executed.
struct Here {
  Warp& warp;
  const Site& site;
  int lane;

  void fail(const std::string& rule) const { warp.fail(site, lane, rule); }
};

/// A box of a tensor. The map gives the size. `first` is the position of the first element, which may be outside the
/// tensor.
struct Box {
  TensorMap map;
  std::array<std::int64_t, TensorMap::kMostDimensions> first{};
};

std::string name_of_place(ptx::Space space, std::uint64_t place) {
  return space == ptx::Space::param ? fmt::format("byte {} of the kernel's parameters", place)
                                    : fmt::format("address {:#x}", place);
}

/// Reads the map at a generic address. Returns false after warp.fail().
bool read_map(const Here& here, std::uint64_t address, TensorMap& dst) {
  std::uint64_t place = address;
  const ptx::Space space = space_of(place);
  if (space == ptx::Space::shared || space == ptx::Space::local) {
    here.fail(fmt::format("a tensor map lies in parameters, constant or global memory, and not in {} memory",
                          ptx::name(space)));
    return false;
  }
  const std::string name = name_of_place(space, place);
  if (place % alignof(EncodedTensorMap) != 0) {
    here.fail(fmt::format("the tensor map at {} is not at a multiple of {}", name, alignof(EncodedTensorMap)));
    return false;
  }
  const std::byte* const encoded =
      resolve_range(here.warp, here.site, space, false, place, sizeof(EncodedTensorMap), here.lane);
  if (encoded == nullptr) return false;
  if (!decode(encoded, dst)) {
    here.fail(fmt::format("at {} is no tensor map of the CPU device", name));
    return false;
  }
  const std::string rule = broken_rule(dst);
  if (!rule.empty()) here.fail(fmt::format("the tensor map at {} is damaged: {}", name, rule));
  return rule.empty();
}

/// Returns true unless the box lies completely outside the tensor in a dimension other than the first; reports a
/// failure then. A GPU silently copies zeros in this case, although the kernel has asked for a page or a sequence that
/// does not exist. In the first dimension such boxes are normal at the ragged end of rows.
bool is_near(const Here& here, const Box& box) {
  for (std::size_t i = 1; i < static_cast<std::size_t>(box.map.rank); ++i) {
    const std::int64_t first = box.first[i];
    if (first < static_cast<std::int64_t>(box.map.sizes[i]) && first + std::int64_t{box.map.box[i]} > 0) continue;
    here.fail(
        fmt::format("a box that begins at {} of dimension {} is wholly outside of the {}", first, i, box.map.text()));
    return false;
  }
  return true;
}

/// Reads the map and the coordinates that the instruction names. Returns false after warp.fail().
bool read_box(const Here& here, Box& dst) {
  if (!read_map(here, source<std::uint64_t>(here.warp, 1)[here.lane], dst.map)) return false;
  if (dst.map.rank != here.site.count) {
    here.fail(
        fmt::format("a copy of {} dimensions uses a {}, which has {}", here.site.count, dst.map.text(), dst.map.rank));
    return false;
  }
  for (int i = 0; i < dst.map.rank; ++i)
    dst.first[static_cast<std::size_t>(i)] = source<std::int32_t>(here.warp, kFirstCoordinate + i)[here.lane];
  return checker_of(here.warp) == nullptr || is_near(here, dst);
}

/// Cuts a box into strips, in the order of shared memory.
class Cutter {
 public:
  /// `shared` is the box's address, whose bits determine how chunks are swizzled.
  Cutter(const Here& here, const Box& box, std::uint64_t shared)
      : here_(here), map_(box.map), box_(box), shared_(shared & kSharedOffsetMask) {}

  /// The result is incomplete after warp.fail().
  std::vector<Strip> cut() {
    const std::uint64_t rows = map_.box_bytes() / map_.row_bytes();
    for (std::uint64_t row = 0; row < rows && !here_.warp.failure; ++row) add_row(row);
    return std::move(strips_);
  }

 private:
  /// Adds row `row` of the box. The row number enumerates all dimensions except the first, the second dimension
  /// fastest.
  void add_row(std::uint64_t row) {
    const std::uint64_t offset = row * map_.row_bytes();
    std::uint64_t address = map_.base;
    bool inside = true;
    for (std::size_t i = 1; i < static_cast<std::size_t>(map_.rank); ++i) {
      const std::int64_t index = box_.first[i] + static_cast<std::int64_t>(row % map_.box[i]);
      row /= map_.box[i];
      inside = inside && index >= 0 && index < static_cast<std::int64_t>(map_.sizes[i]);
      address += static_cast<std::uint64_t>(index) * map_.strides[i - 1];
    }
    const std::int64_t width = map_.box[0];
    const std::int64_t begin = inside ? std::clamp<std::int64_t>(-box_.first[0], 0, width) : width;
    const std::int64_t end =
        inside ? std::clamp<std::int64_t>(static_cast<std::int64_t>(map_.sizes[0]) - box_.first[0], begin, width)
               : width;
    add(offset, bytes_of(begin), nullptr);
    if (begin < end)
      add_from(offset + bytes_of(begin), bytes_of(end - begin), address + bytes_of(box_.first[0] + begin));
    add(offset + bytes_of(end), bytes_of(width - end), nullptr);
  }

  std::uint64_t bytes_of(std::int64_t elements) const {
    return static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(map_.element_bytes);
  }

  void add_from(std::uint64_t offset, std::uint64_t bytes, std::uint64_t address) {
    std::byte* const global =
        resolve_range(here_.warp, here_.site, ptx::Space::global, false, address, bytes, here_.lane);
    if (global != nullptr) add(offset, bytes, global);
  }

  void add(std::uint64_t offset, std::uint64_t bytes, std::byte* global) {
    while (bytes != 0) {
      const bool is_whole = map_.swizzle == TensorSwizzle::none;
      const std::uint64_t part = is_whole ? bytes : std::min(bytes, kSwizzleChunk - offset % kSwizzleChunk);
      strips_.push_back({global, swizzled(offset), part});
      offset += part;
      bytes -= part;
      if (global != nullptr) global += part;
    }
  }

  std::uint64_t swizzled(std::uint64_t offset) const {
    if (map_.swizzle == TensorSwizzle::none) return offset;
    return swizzled_address(shared_ + offset, static_cast<std::uint64_t>(map_.swizzle)) - shared_;
  }

  const Here& here_;
  const TensorMap& map_;
  const Box& box_;
  std::uint64_t shared_;
  std::vector<Strip> strips_;
};

}  // namespace

void copy_tensor(Warp& warp, Mask mask, const Site& site) {
  const auto form = static_cast<BulkForm>(site.form);
  for_lanes(mask, [&](int lane) {
    const Here here{warp, site, lane};
    Box box;
    if (!read_box(here, box)) return;
    const Target target{source<std::uint64_t>(warp, 0)[lane], source<std::uint64_t>(warp, 3)[lane]};
    if (target.dst % kBoxAlignment != 0) {
      return here.fail(fmt::format("address {:#x} of a tensor's box in shared memory is not a multiple of {}",
                                   target.dst, kBoxAlignment));
    }
    Delivery delivery = begun(warp, site, lane, false);
    delivery.bytes = box.map.box_bytes();
    std::byte* const place = shared_place(warp, site, lane, target.dst, delivery.bytes);
    if (place == nullptr) return;  // fail before cutting the box, which may be huge
    delivery.strips = Cutter(here, box, target.dst).cut();
    if (warp.failure) return;
    if (form == BulkForm::multicast) return send_to_blocks(target, delivery);
    if (form == BulkForm::from_global) return send_to_block(target, std::move(delivery));
    delivery.src = place;
    delivery.reads_shared = true;
    send(std::move(delivery));
  });
}

void prefetch_tensor(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    const Here here{warp, site, lane};
    Box box;
    if (read_box(here, box)) Cutter(here, box, 0).cut();
  });
}

void prefetch_map(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    std::uint64_t address = source<std::uint64_t>(warp, 0)[lane] + static_cast<std::uint64_t>(site.offset);
    if (!site.generic && site.space == ptx::Space::param) address += kParameterWindow;
    TensorMap map;
    read_map({warp, site, lane}, address, map);
  });
}

}  // namespace cubit::runtime::cpu::helpers
