#include "tree/shapes.h"

#include <gtest/gtest.h>

#include "tree/cut.h"
#include "tree/documents.h"

namespace ingot::tree {
namespace {

struct Sizes {
  int64_t separate, chained, tree;
};

Sizes SizesOf(const std::string& shape, double scale = 1) {
  const auto calls = MakeWorkload(shape, scale, 1000);
  EXPECT_TRUE(calls.ok()) << calls.status();
  return {static_cast<int64_t>(PackDocuments(*calls, SeparateCalls(*calls))->size()),
          static_cast<int64_t>(PackDocuments(*calls, ChainedCalls(*calls))->size()),
          static_cast<int64_t>(PackForest(*calls, OrderChainFirst(*calls))->size())};
}

TEST(Workloads, ADialogueIsOneChain) {
  const Sizes sizes = SizesOf("dialogue-5");
  EXPECT_EQ(sizes.tree, 4096 + 5 * 1024);
  EXPECT_EQ(sizes.chained, sizes.tree);
  EXPECT_EQ(sizes.separate, 5 * 4096 + (1 + 2 + 3 + 4 + 5) * 1024);
}

TEST(Workloads, AGroupRepeatsItsPromptUnlessMerged) {
  const Sizes sizes = SizesOf("group-8-32k");
  EXPECT_EQ(sizes.tree, 32 * 1024 + 8 * 1024);
  EXPECT_EQ(sizes.separate, 8 * 33 * 1024);
  EXPECT_EQ(sizes.chained, sizes.separate);
}

TEST(Workloads, GroupsShareTheSystemPrompt) {
  const Sizes sizes = SizesOf("system-16");
  EXPECT_EQ(sizes.tree, 8192 + 16 * (512 + 4 * 512));
  EXPECT_EQ(sizes.chained, 64 * (8192 + 1024));
}

TEST(Workloads, DroppedThinkingForksAtEveryTurn) {
  // Turn t sees the prompt and 768 tokens of each earlier turn. Of its own 1024 tokens all but the question are a
  // branch. The last turn's branch is the end of the trunk.
  EXPECT_EQ(SizesOf("thinking-3").tree, 4096 + 3 * 1024 + 2 * 256);
}

TEST(Workloads, SummariesAndWindowsStartAgainAfterThePrompt) {
  EXPECT_EQ(SizesOf("summary-20").tree, 4096 + 10 * 1024 + 512 + 10 * 1024);
  EXPECT_EQ(SizesOf("window-12").tree, 4096 + 11 * 1024 + 11 * 1024);  // the last call sees turns 2 to 11 and its own
}

TEST(Workloads, ScaleShortensEveryPiece) {
  EXPECT_EQ(SizesOf("dialogue-5", 1.0 / 64).tree, 64 + 5 * 16);
  EXPECT_EQ(SizesOf("dialogue-2", 1e-9).tree, 1 + 2 * 3);
}

TEST(Workloads, UnknownShapesAndScalesAreErrors) {
  for (const char* shape : {"", "dialogue", "dialogue-", "dialogue-0", "dialogue-5-5", "dialogue-99999", "group-8",
                            "group-8-8", "group-0-8k", "group-8-k", "tree-5", "system--1"}) {
    EXPECT_EQ(MakeWorkload(shape, 1, 10).status().code(), absl::StatusCode::kInvalidArgument) << shape;
  }
  EXPECT_FALSE(MakeWorkload("dialogue-5", 0, 10).ok());
  EXPECT_FALSE(MakeWorkload("dialogue-5", 1, 1).ok());
  for (const std::string& shape : WorkloadShapes()) EXPECT_TRUE(MakeWorkload(shape, 0.001, 10).ok()) << shape;
}

}  // namespace
}  // namespace ingot::tree
