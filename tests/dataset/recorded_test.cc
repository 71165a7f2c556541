// Recorded trajectories as rows: which paths they are, what is learnt in each, and that a row trains what was sampled.
#include "dataset/recorded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "dataset/conversations.h"
#include "tree/segment_key.h"

namespace ingot::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class Tree {
 public:
  // A call with this own prompt and these sampled ids; `parent`: the call that it continues whole, -1 = none.
  v1::Call& Add(const std::vector<int32_t>& prompt, const std::vector<int32_t>& sampled, int parent = -1) {
    v1::Call& call = *tree_.add_calls();
    call.set_call_id("c" + std::to_string(tree_.calls_size() - 1));
    call.set_sequence(tree_.calls_size() - 1);
    call.set_tokenizer_fingerprint("abc");
    call.mutable_sampling()->set_temperature(1);
    call.add_context_keys(Store(prompt, v1::SOURCE_PROMPT));
    if (!sampled.empty()) call.add_sampled_keys(Store(sampled, v1::SOURCE_SAMPLED));
    if (parent >= 0) {
      call.set_parent_call_id("c" + std::to_string(parent));
      call.set_continued_segments(1);
    }
    return call;
  }
  const v1::EpisodeTree& tree() const { return tree_; }

 private:
  std::string Store(const std::vector<int32_t>& ids, v1::Source source) {
    v1::Segment segment;
    segment.set_source(source);
    segment.mutable_token_ids()->Add(ids.begin(), ids.end());
    if (source == v1::SOURCE_SAMPLED) {
      for (size_t i = 0; i < ids.size(); ++i) segment.add_logprobs(-1);
      segment.add_versions()->set_count(static_cast<int32_t>(ids.size()));
    }
    const std::string key = tree::SegmentKey(segment);
    (*tree_.mutable_segments())[absl::BytesToHexString(key)] = segment;
    return key;
  }
  v1::EpisodeTree tree_;
};

TEST(RecordedRow, ADialogueIsOneRowWithATurnPerRange) {
  Tree tree;
  tree.Add({1, 2}, {3, 4});
  tree.Add({5}, {6, 7, 8}, 0);
  const auto rows = RowsOf(tree.tree());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_THAT((*rows)[0].ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT((*rows)[0].learnt, ElementsAre(Pair(2, 4), Pair(5, 8)));
  EXPECT_EQ((*rows)[0].tokenizer, "abc");
}

TEST(RecordedRow, ATurnOnTwoPathsIsLearntOnce) {
  Tree tree;
  tree.Add({1, 2}, {3, 4});
  tree.Add({5}, {6}, 0);
  tree.Add({7}, {8}, 0);
  const auto rows = RowsOf(tree.tree());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_THAT((*rows)[0].learnt, ElementsAre(Pair(2, 4), Pair(5, 6)));
  EXPECT_THAT((*rows)[1].ids, ElementsAre(1, 2, 3, 4, 7, 8));
  EXPECT_THAT((*rows)[1].learnt, ElementsAre(Pair(5, 6)));
}

TEST(RecordedRow, OtherModelsTurnsAreContext) {
  Tree tree;
  tree.Add({1, 2}, {3, 4}).set_weights(v1::WEIGHTS_PINNED);
  tree.Add({5}, {6}, 0);
  tree.Add({9}, {9}).set_weights(v1::WEIGHTS_EXTERNAL);
  const auto rows = RowsOf(tree.tree());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 1u) << "nothing is learnt of the other path";
  EXPECT_THAT((*rows)[0].learnt, ElementsAre(Pair(5, 6)));
}

TEST(RecordedRow, ReadsBackEqualAndTrainsTheSampledIds) {
  const RecordedRow row{.ids = {1, 2, 3, 4, 5}, .learnt = {{2, 3}, {4, 5}}, .tokenizer = "abc"};
  const auto read = RecordedRowFromJson(base::json::value(ToJson(row)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ids, row.ids);
  EXPECT_EQ(read->learnt, row.learnt);
  EXPECT_EQ(read->tokenizer, row.tokenizer);
  const auto examples = ExamplesOf(*read);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_THAT(examples[0].context.Tokens(), ElementsAre(1, 2));
  EXPECT_THAT(examples[0].sampled, ElementsAre(3));
  EXPECT_THAT(examples[1].context.Tokens(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(examples[1].sampled, ElementsAre(5));
}

TEST(RecordedRow, FaultsAreNamed) {
  const auto fault = [](const std::string& text) {
    return std::string(RecordedRowFromJson(base::ParseJson(text).value()).status().message());
  };
  EXPECT_THAT(fault(R"({"ids": "x"})"), HasSubstr("'ids' must be"));
  EXPECT_THAT(fault(R"({"ids": [1, -2], "learnt": [[1, 2]]})"), HasSubstr("ids[1]"));
  EXPECT_THAT(fault(R"({"ids": [1, 2]})"), HasSubstr("'learnt' must be"));
  EXPECT_THAT(fault(R"({"ids": [1, 2], "learnt": [[0, 1]]})"), HasSubstr("learnt[0][0]"));
  EXPECT_THAT(fault(R"({"ids": [1, 2], "learnt": [[1, 3]]})"), HasSubstr("learnt[0][1]"));
  EXPECT_THAT(fault(R"({"ids": [1, 2, 3], "learnt": [[2, 3], [1, 2]]})"), HasSubstr("learnt[1][0]"));
}

}  // namespace
}  // namespace ingot::dataset
