// The store in memory: what it returns, and what it removes.
#include "kv/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store_rig.h"

namespace ingot::kv {
namespace {

class MemoryStoreTest : public testing::Test {
 protected:
  absl::Status Put(MemoryStore& store, const Chunk& chunk) {
    return store.Put(root_, chunk, Planes(root_, chunk).write());
  }
  absl::Status Get(MemoryStore& store, const Chunk& chunk) {
    Planes planes(root_);
    const absl::Status status = store.Get(root_, chunk, planes.read());
    EXPECT_TRUE(!status.ok() || planes == Planes(root_, chunk)) << "wrong bytes";
    return status;
  }

  const Root root_ = SmallRoot();
  const std::vector<Chunk> chain_ = SmallChain(root_, 4);
  const int64_t chunk_bytes_ = LayoutOf(chain_[0], root_.plane_bytes).header_bytes + 96 + 96 + 40;
};

TEST_F(MemoryStoreTest, AChunkIsReadOnlyAsItself) {
  MemoryStore store(1 << 20);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Put(store, chain_[i]).ok());
  EXPECT_EQ(store.Longest(root_, chain_), 3);
  EXPECT_TRUE(Get(store, chain_[2]).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(store, chain_[3])));
  Planes planes(root_);
  const Root other = SmallRoot(8);
  EXPECT_TRUE(absl::IsNotFound(store.Get(other, chain_[0], planes.read()))) << "another root with this key";
  Chunk collides = chain_[0];
  ++collides.ids[3];
  EXPECT_TRUE(absl::IsNotFound(store.Get(root_, collides, planes.read()))) << "other ids with this key";
  EXPECT_EQ(store.stats().put_chunks, 3);
  EXPECT_EQ(store.stats().bytes, 3 * chunk_bytes_);
}

TEST_F(MemoryStoreTest, TheEndsOfOldChainsAreRemovedFirst) {
  MemoryStore store(5 * chunk_bytes_);
  const std::vector<Chunk> old = SmallChain(root_, 3, 1000);
  for (const Chunk& chunk : old) ASSERT_TRUE(Put(store, chunk).ok());
  for (const Chunk& chunk : chain_) ASSERT_TRUE(Put(store, chunk).ok());
  EXPECT_EQ(store.Longest(root_, chain_), 4);
  EXPECT_EQ(store.Longest(root_, old), 1);
  EXPECT_EQ(store.stats().bytes, 5 * chunk_bytes_);
  EXPECT_EQ(store.stats().evicted_bytes, 2 * chunk_bytes_);
  ASSERT_TRUE(Get(store, old[0]).ok());  // now the most recently used
  ASSERT_TRUE(Put(store, old[1]).ok());
  EXPECT_EQ(store.Longest(root_, old), 2);
  EXPECT_EQ(store.Longest(root_, chain_), 3);
}

TEST_F(MemoryStoreTest, AChunkLargerThanTheStoreIsRefused) {
  MemoryStore store(chunk_bytes_ - 1);
  const absl::Status refused = Put(store, chain_[0]);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("rollout.kv_store.max_bytes"));
  EXPECT_EQ(store.stats().failed_puts, 1);
  EXPECT_EQ(store.stats().bytes, 0);
}

TEST_F(MemoryStoreTest, ChunksOfARootThatIsNotHeldAreRemoved) {
  MemoryStore store(1 << 20);
  ASSERT_TRUE(Put(store, chain_[0]).ok());
  const KeptChunkPtr in_use = store.Find(root_.Text(), chain_[0]);
  ASSERT_NE(in_use, nullptr);
  const Root next = SmallRoot(8);
  const Chunk chunk = SmallChain(next, 1)[0];
  store.Hold({root_.Key(), next.Key()});
  ASSERT_TRUE(store.Put(next, chunk, Planes(next, chunk).write()).ok());
  EXPECT_TRUE(Get(store, chain_[0]).ok());
  store.Hold({next.Key()});
  const Chunk second = SmallChain(next, 2)[1];
  ASSERT_TRUE(store.Put(next, second, Planes(next, second).write()).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(store, chain_[0])));
  EXPECT_EQ(store.stats().retired_bytes, chunk_bytes_);
  EXPECT_EQ(store.stats().bytes, 2 * chunk_bytes_);
  EXPECT_EQ(in_use->bytes(), chunk_bytes_) << "a reader keeps it";
}

TEST_F(MemoryStoreTest, PlanesOfOtherSizesAreRefused) {
  MemoryStore store(1 << 20);
  const Planes planes(root_, chain_[0]);
  PlanesToWrite cut = planes.write();
  cut[0].pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(store.Put(root_, chain_[0], cut)));
  EXPECT_EQ(store.stats().bytes, 0);
}

TEST(OptionsTest, AUrlIsNoDirectory) {
  const absl::Status refused = Options{.path = "s3://bucket/kv"}.Validate();
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("a directory or memory://"));
  EXPECT_TRUE(Options{.path = "memory://"}.Validate().ok());
}

}  // namespace
}  // namespace ingot::kv
