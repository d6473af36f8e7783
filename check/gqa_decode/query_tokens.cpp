// Several query tokens per sequence on the host: the positions that each token attends to, as in
// templates/attention/query_tokens.cuh, and mask words of random trees.
#include <fmt/format.h>

#include "check/gqa_decode/problem.hpp"
#include "check/random.hpp"

namespace cubit::check::gqa_decode {

bool attends_to(const GqaDecode& descriptor, int length, int token, std::uint32_t mask, int position) {
  const int own = query_position(descriptor, length, token);
  if (own < 0) return false;
  if (descriptor.mask == QueryMask::causal) return position <= own;
  const int other = position - query_position(descriptor, length, 0);  // the query token at `position`
  return other < 0 || (mask >> other & 1u) != 0;
}

std::vector<std::int64_t> query_shape(const GqaDecode& descriptor, std::int64_t batch, std::int64_t query_heads,
                                      int channels) {
  if (descriptor.query_tokens == 1) return {batch, query_heads, channels};
  return {batch, descriptor.query_tokens, query_heads, channels};
}

const char* query_dimensions(const GqaDecode& descriptor) {
  return descriptor.query_tokens == 1 ? "[batch, query heads, head_dim] or [batch, 1, query heads, head_dim]"
                                      : "[batch, query_tokens, query heads, head_dim]";
}

void check_mask(const GqaDecode& descriptor, const Tensor* mask, std::int64_t batch) {
  if (descriptor.mask == QueryMask::tree && mask == nullptr) {
    reject("tensors without mask", "the descriptor has mask=tree",
           fmt::format("give mask [batch, query_tokens] = [{}, {}] I32, or leave mask=tree out", batch,
                       descriptor.query_tokens));
  }
  if (mask == nullptr) return;
  if (descriptor.mask == QueryMask::causal) {
    reject("tensor mask", "the descriptor does not have mask=tree",
           "leave it out, or ask for query_tokens=2 to 16 and mask=tree");
  }
  require_type(*mask, "I32");
  require_shape(*mask, {batch, descriptor.query_tokens}, "[batch, query_tokens]");
}

std::unique_ptr<char[]> make_trees(const GqaDecode& descriptor, std::int64_t batch, Random& random) {
  const int tokens = descriptor.query_tokens;
  auto data = std::make_unique<char[]>(4 * batch * tokens);
  auto* words = reinterpret_cast<std::uint32_t*>(data.get());
  for (std::int64_t sequence = 0; sequence < batch; ++sequence, words += tokens) {
    for (int token = 0; token < tokens; ++token) {
      // The parent is one of the tokens 0 … token. A token that is its own parent is a root.
      const auto parent = static_cast<int>(random.bits() % static_cast<std::uint64_t>(token + 1));
      words[token] = 1u << token | (parent == token ? 0 : words[parent]);
    }
    // Bits that the kernel does not read get random values.
    for (int token = 0; token < tokens; ++token) words[token] |= static_cast<std::uint32_t>(random.bits()) << tokens;
  }
  return data;
}

}  // namespace cubit::check::gqa_decode
