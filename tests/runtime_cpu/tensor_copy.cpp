// Makes kernels that copy tensor boxes, runs them, and models their results.
#include "tests/runtime_cpu/tensor_copy.hpp"

#include <cstddef>
#include <cstring>

#include "base/error.hpp"
#include "runtime/cpu/memory_map.hpp"

namespace cubit::tests {
namespace {

using runtime::cpu::MemoryMap;

static_assert(offsetof(CopyArguments, first) == 144 && sizeof(CopyArguments) == 256);

const std::string kHead = R"(.version 8.7
.target sm_90a
.address_size 64
.visible .entry kernel(.param .align 128 .b8 args[256]) {
  .reg .pred %p<4>;
  .reg .b16 %s<2>;
  .reg .b32 %r<16>, %c<5>;
  .reg .b64 %d<8>;
  .shared .align 1024 .b8 buffer[16384];
  .shared .align 8 .b64 bar;
  mov.b64 %d0, args;
  cvta.param.u64 %d0, %d0;
  ld.param.u64 %d1, [args+128];
  ld.param.u32 %r1, [args+136];
  ld.param.u32 %r2, [args+140];
  ld.param.b32 %c0, [args+144]; ld.param.b32 %c1, [args+148]; ld.param.b32 %c2, [args+152];
  ld.param.b32 %c3, [args+156]; ld.param.b32 %c4, [args+160];
  mov.u32 %r0, buffer;
  add.u32 %r3, %r0, %r2;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, bar;
  setp.eq.u32 %p0, %r4, 0;
  mov.u32 %r6, %r4;
$fill:
  mad.lo.u32 %r7, %r6, 4, %r0;
  mul.lo.u32 %r8, %r6, 0x9e3779b1;
  st.shared.u32 [%r7], %r8;
  add.u32 %r6, %r6, 32;
  setp.lt.u32 %p1, %r6, 4096;
  @%p1 bra $fill;
  @%p0 mbarrier.init.shared.b64 [bar], 1;
  fence.proxy.async.shared::cta;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)";

std::string map_operand(int rank) {
  std::string text = "[%d0, {";
  for (int i = 0; i < rank; ++i) text += (i == 0 ? "%c" : ", %c") + std::to_string(i);
  return text + "}]";
}

}  // namespace

const std::string kExpect = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r1;\n";
const std::string kWait = "$wait: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra $wait;\n";
const std::string kDump = R"(
  mov.u32 %r9, %ctaid.x;
  mad.wide.u32 %d1, %r9, 16384, %d1;
  mov.u32 %r6, %r4;
$dump:
  mad.lo.u32 %r7, %r6, 4, %r0;
  ld.shared.u32 %r8, [%r7];
  mad.wide.u32 %d2, %r6, 4, %d1;
  st.global.u32 [%d2], %r8;
  add.u32 %r6, %r6, 32;
  setp.lt.u32 %p1, %r6, 4096;
  @%p1 bra $dump;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)";

std::string load_of(int rank) {
  return "@%p0 cp.async.bulk.tensor." + std::to_string(rank) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], " + map_operand(rank) + ", [%r5];\n";
}

std::string store_of(int rank) {
  return "@%p0 cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta.tile.bulk_group " +
         map_operand(rank) + ", [%r3];\n";
}

void Copy::allocate() {
  memory = {runtime::cpu::allocate_aligned(bytes).release(), runtime::cpu::AlignedFree()};
  map.base = reinterpret_cast<std::uint64_t>(memory.get());
  arguments.map = runtime::cpu::encode(map);
  arguments.bytes = static_cast<std::uint32_t>(map.box_bytes());
}

Program load_copy(const std::string& body) { return runtime::cpu::load_program(kHead + body + "ret;\n}\n", "kernel"); }

Bytes run_copy(const runtime::cpu::Program& program, const Copy& copy, unsigned blocks, bool check) {
  Bytes output(kBuffer * blocks);
  CopyArguments arguments = copy.arguments;
  arguments.output = output.data();
  const auto range = [](const void* first, std::uint64_t bytes) {
    const auto address = reinterpret_cast<std::uint64_t>(first);
    return MemoryMap::Range{address, address + bytes};
  };
  const MemoryMap memory({range(copy.memory.get(), copy.bytes), range(output.data(), output.size())});
  runtime::cpu::execute(program, {.grid = {blocks, 1, 1},
                                  .block = {runtime::cpu::kLanes, 1, 1},
                                  .cluster = {blocks, 1, 1},
                                  .parameters = std::as_bytes(std::span(&arguments, 1)),
                                  .memory = &memory,
                                  .check = check});
  return output;
}

std::string failure_of_copy(const std::string& body, const Copy& copy) {
  try {
    run_copy(*load_copy(body), copy);
  } catch (const Failure& failure) {
    return failure.given() + ": " + failure.rule();
  }
  return "";
}

Bytes filled_buffer() {
  Bytes buffer(kBuffer);
  for (std::uint32_t i = 0; i < kBuffer / 4; ++i) {
    const std::uint32_t word = i * 0x9e3779b1u;
    std::memcpy(buffer.data() + std::size_t{i} * 4, &word, sizeof word);
  }
  return buffer;
}

namespace {

/// Position of byte `index` of a box in the buffer. In rows of eight chunks, smem[y][x] is smem[y][((y + offset) % n) ^
/// x].
std::size_t place_in_buffer(const Copy& copy, std::size_t index) {
  const std::size_t start = copy.arguments.offset;
  const std::size_t period = static_cast<std::size_t>(copy.map.swizzle) / 16;
  if (period == 0) return start + index;
  const std::size_t y = index / 128;
  const std::size_t x = index % 128 / 16;
  const std::size_t offset = start / 128 % period;
  return start + y * 128 + (((y + offset) % period) ^ x) * 16 + index % 16;
}

/// Position of byte `index` of a box in the tensor's memory; -1: outside the tensor.
std::int64_t place_in_tensor(const Copy& copy, std::size_t index) {
  const TensorMap& map = copy.map;
  std::size_t element = index / static_cast<std::size_t>(map.element_bytes);
  std::int64_t place = static_cast<std::int64_t>(index % static_cast<std::size_t>(map.element_bytes));
  for (std::size_t i = 0; i < static_cast<std::size_t>(map.rank); ++i) {
    const std::int64_t at = copy.arguments.first[i] + static_cast<std::int64_t>(element % map.box[i]);
    element /= map.box[i];
    if (at < 0 || at >= static_cast<std::int64_t>(map.sizes[i])) return -1;
    place += at * (i == 0 ? map.element_bytes : static_cast<std::int64_t>(map.strides[i - 1]));
  }
  return place;
}

}  // namespace

Bytes loaded_buffer(const Copy& copy) {
  Bytes buffer = filled_buffer();
  for (std::size_t i = 0; i < copy.map.box_bytes(); ++i) {
    const std::int64_t place = place_in_tensor(copy, i);
    buffer[place_in_buffer(copy, i)] = place < 0 ? 0 : copy.data()[place];
  }
  return buffer;
}

Bytes stored_tensor(const Copy& copy) {
  const Bytes buffer = filled_buffer();
  Bytes tensor = copy.tensor();
  for (std::size_t i = 0; i < copy.map.box_bytes(); ++i) {
    const std::int64_t place = place_in_tensor(copy, i);
    if (place >= 0) tensor[static_cast<std::size_t>(place)] = buffer[place_in_buffer(copy, i)];
  }
  return tensor;
}

bool is_beside(const Copy& copy) {
  for (std::size_t i = 1; i < static_cast<std::size_t>(copy.map.rank); ++i) {
    bool any = false;
    for (std::int64_t at = copy.arguments.first[i]; at < copy.arguments.first[i] + std::int64_t{copy.map.box[i]}; ++at)
      any = any || (at >= 0 && at < static_cast<std::int64_t>(copy.map.sizes[i]));
    if (!any) return true;
  }
  return false;
}

}  // namespace cubit::tests
