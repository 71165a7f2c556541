// Keys and headers of chunks.
#include "kv/chunk.h"

#include <gtest/gtest.h>

#include "store_rig.h"

namespace ingot::kv {
namespace {

TEST(ChunkTest, AKeyStandsForTheRootAndAllTokensBefore) {
  const Root root = SmallRoot();
  const std::vector<Chunk> chain = SmallChain(root, 3);
  ASSERT_EQ(chain.size(), 3u);
  EXPECT_EQ(chain[0].parent, root.Key());
  EXPECT_EQ(chain[2].parent, chain[1].key);
  EXPECT_EQ(chain[2].first, 16);
  std::vector<int32_t> other(24);
  std::iota(other.begin(), other.end(), 0);
  other[0] = 99;
  const std::vector<Chunk> changed = ChainOf(root.Key(), other, 8);
  for (int i = 0; i < 3; ++i) EXPECT_NE(chain[i].key, changed[i].key) << i;
  EXPECT_EQ(ChainOf(root.Key(), std::span(other).first(23), 8).size(), 2u) << "only whole chunks";
}

TEST(ChunkTest, EveryFieldOfTheRootChangesItsKey) {
  std::vector<Root> roots(8, SmallRoot());
  roots[1].policy_checksum = 8;
  roots[2].model = "other";
  roots[3].numerics = "cpu avx2";
  roots[4].dtype = "BF16";
  roots[5].chunk_tokens = 16;
  roots[6].block_tokens = 8;
  roots[7].plane_bytes = {96, 40, 96};
  for (size_t i = 0; i < roots.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(roots[i].Key(), roots[j].Key()) << i << " " << j;
  }
}

TEST(ChunkTest, PlanesStartAtPages) {
  const Root root = SmallRoot();
  const FileLayout layout = LayoutOf(SmallChain(root, 1)[0], root.plane_bytes);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{4096, 8192, 12288}));
  EXPECT_EQ(layout.file_bytes, 12288 + 40);
}

TEST(ChunkTest, AHeaderIsReadOnlyForItsChunk) {
  const Root root = SmallRoot();
  const std::vector<Chunk> chain = SmallChain(root, 2);
  const std::vector<uint64_t> checksums = {1, 2, 3};
  const std::string header = EncodeHeader(chain[1], root.plane_bytes, checksums);
  EXPECT_EQ(std::ssize(header), LayoutOf(chain[1], root.plane_bytes).header_bytes);
  std::vector<uint64_t> read;
  EXPECT_TRUE(ReadHeader(header, chain[1], root.plane_bytes, read));
  EXPECT_EQ(read, checksums);
  EXPECT_FALSE(ReadHeader(header, chain[0], root.plane_bytes, read));
  Chunk collides = chain[1];  // a chunk with the same key, but other ids
  ++collides.ids[3];
  EXPECT_FALSE(ReadHeader(header, collides, root.plane_bytes, read));
  EXPECT_FALSE(ReadHeader(header.substr(1), chain[1], root.plane_bytes, read));
  for (size_t i = 0; i < header.size(); ++i) {
    std::string flipped = header;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_FALSE(ReadHeader(flipped, chain[1], root.plane_bytes, read)) << i;
  }
}

}  // namespace
}  // namespace ingot::kv
