// Proves: sessions remember kernels by text, all spellings of a descriptor give one kernel, and many spellings do not
// grow memory without bound.
#include "ops/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <barrier>
#include <thread>

#include "tests/capi/prepared_cache.hpp"

namespace cubit::ops {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(0);
    cache_.add("stream_read");
    cache_.add("stream_read", "sm_80");
  }
  runtime::Settings settings() const {
    runtime::Settings settings;
    settings.cache_dir = cache_.path();
    settings.nvrtc_path = fake::kNoCompiler;
    settings.compile_policy = runtime::CompilePolicy::never;
    return settings;
  }
  const codegen::Architecture& hopper_ = codegen::find_architecture("sm_90a");
  fake::PreparedCache cache_;
};

TEST_F(SessionTest, EverySpellingIsOneKernelAndEveryArchitectureItsOwn) {
  Session session(settings(), {});
  const KernelHandle canonical = session.get("stream_read", hopper_);
  const KernelHandle spelled = session.get("stream_read:blocks_per_sm=4", hopper_);
  EXPECT_EQ(canonical.get(), spelled.get());
  EXPECT_EQ(session.get("stream_read:blocks_per_sm=4", hopper_).get(), spelled.get());
  EXPECT_EQ(session.remembered_aliases(), 1U);
  const KernelHandle ampere = session.get("stream_read", codegen::find_architecture("sm_80"));
  EXPECT_NE(canonical.get(), ampere.get());
  EXPECT_EQ(ampere->kernel->artifact().target, "sm_80");
}

TEST_F(SessionTest, AliasFirstIsTheSameKernelToo) {
  Session session(settings(), {});
  const KernelHandle spelled = session.get("stream_read:blocks_per_sm=4", hopper_);
  EXPECT_EQ(spelled->descriptor, "stream_read");
  EXPECT_EQ(session.get("stream_read", hopper_).get(), spelled.get());
}

TEST_F(SessionTest, AnswersFromMemoryAreCounted) {
  Session session(settings(), {});
  session.get("stream_read", hopper_);
  const auto before = session.engine().counters();
  for (int i = 0; i < 10; ++i) session.get("stream_read", hopper_);
  EXPECT_EQ(session.engine().counters().memory_hits, before.memory_hits + 10);
  EXPECT_EQ(before.disk_hits, 1U);
}

TEST_F(SessionTest, FailuresAreNotRemembered) {
  Session session(settings(), {});
  const Failure first = fake::failure_of([&] { session.get("stream_read:blocks_per_sm=2", hopper_); });
  EXPECT_EQ(first.status(), Status::not_cached);
  cache_.add("stream_read:blocks_per_sm=2");
  EXPECT_TRUE(session.get("stream_read:blocks_per_sm=2", hopper_));
}

TEST_F(SessionTest, FloodOfSpellingsIsAnsweredButNotRemembered) {
  cache_.add("gqa_decode:kv=int4_rows");
  std::vector<std::string> fields = {"alignment=4",  "groups=1",    "head_dim=128", "heads_per_kv=1",
                                     "kv=int4_rows", "output=bf16", "query=bf16"};
  Session session(settings(), {});
  const KernelHandle kernel = session.get("gqa_decode:kv=int4_rows", hopper_);
  std::size_t spellings = 0;
  do {  // 7! = 5040
    const std::string text = fmt::format("gqa_decode:{}", fmt::join(fields, ","));
    ASSERT_EQ(session.get(text, hopper_).get(), kernel.get()) << text;
    ++spellings;
  } while (std::next_permutation(fields.begin(), fields.end()));
  EXPECT_GT(spellings, Session::kMaxAliases);
  EXPECT_EQ(session.remembered_aliases(), Session::kMaxAliases);
  EXPECT_EQ(session.engine().counters().disk_hits, 1U);
}

TEST_F(SessionTest, KernelOutlivesItsSession) {
  KernelHandle kernel;
  {
    Session session(settings(), {});
    kernel = session.get("stream_read", hopper_);
  }
  EXPECT_EQ(kernel->kernel->artifact().cubin.size(), 64U);
  EXPECT_EQ(kernel->specialisation->source().entry_point, "stream_read");
}

TEST_F(SessionTest, ThreadsThatAskAtOnceGetOneKernel) {
  constexpr int kThreads = 8;
  Session session(settings(), {});
  std::vector<KernelHandle> kernels(kThreads);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      kernels[static_cast<std::size_t>(i)] =
          session.get(i % 2 == 0 ? "stream_read" : "stream_read:blocks_per_sm=4", hopper_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const KernelHandle& kernel : kernels) EXPECT_EQ(kernel.get(), kernels[0].get());
  EXPECT_EQ(session.engine().counters().disk_hits, 1U);
}

}  // namespace
}  // namespace cubit::ops
