// How the branches of an episode began.
#include "view/runs/origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datapool/make_pool.h"

namespace ingot::view::origins_test {
namespace {

namespace pools = datapool::testing;

class OriginsTest : public ::testing::Test {
 protected:
  OriginsTest() : pool_(datapool::OpenPool(pools::QuickOptions(dir_.path())).value()) {
    EXPECT_TRUE(pool_->StoreEpisode(pools::Open("e", 0, 0)).ok());
  }

  // A call with a prompt of its own.
  v1::Call& Call(const std::string& prompt, const std::string& delivered, const std::string& cause = "") {
    const auto ids = [&](const std::string& text) { return tokenizer_->Encode(text, true); };
    request_ = pools::Append("e", calls_++, {pools::Prompt(ids(prompt))}, {pools::Sampled(ids("."))});
    request_.mutable_call()->set_fork_cause(cause);
    request_.mutable_call()->set_delivered_json(delivered);
    return *request_.mutable_call();
  }
  void Write() { ASSERT_TRUE(pool_->AppendCall(request_).ok()); }
  void Add(const std::string& prompt, const std::string& delivered, const std::string& cause = "") {
    Call(prompt, delivered, cause);
    Write();
  }
  Origin Last() { return OriginsOf(pools::Get(*pool_, "e").value(), *tokenizer_).back(); }

  pools::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
  std::shared_ptr<const text::Tokenizer> tokenizer_ = text::MakeByteTokenizer({"<|im_end|>"});
  v1::AppendCallRequest request_;
  int calls_ = 0;
};

constexpr char kSaid[] = R"({"content": "So far:\n the tables were read, one is left\nok"})";
constexpr char kStarts[] =
    R"({"content": "", "tool_calls": [{"function": {"name": "task", "arguments": "{\"prompt\": \"count the rows of b\"}"}}]})";

TEST_F(OriginsTest, AConversationThatQuotesAnAnswerGoesOnFromASummary) {
  Add("sum up", R"({"content": "an answer of another kind"})");
  Add("sum up again", kSaid);
  Add("system; Summary: the tables were read, one is left. Go on", "{}", "new_conversation");
  EXPECT_EQ(Last().kind, OriginKind::kSummary);
  EXPECT_EQ(Last().call, 1);
}

TEST_F(OriginsTest, AConversationThatQuotesAnArgumentIsASubAgents) {
  Add("a task", kStarts);
  Add("you are a helper: count the rows of b", "{}", "new_conversation");
  EXPECT_EQ(Last().kind, OriginKind::kSubAgent);
  EXPECT_EQ(Last().call, 0);
}

TEST_F(OriginsTest, AThreadWithAParentIsASubAgentsAtItsFirstCall) {
  Call("a task", "{}").set_branch("main");
  Write();
  Call("another", "{}", "new_conversation").set_branch("helper");
  request_.mutable_call()->set_parent_branch("main");
  Write();
  EXPECT_EQ(Last().kind, OriginKind::kSubAgent);
  EXPECT_EQ(Last().call, -1);
  Call("a third", "{}", "edited").set_branch("helper");
  request_.mutable_call()->set_parent_branch("main");
  Write();
  EXPECT_EQ(Last().kind, OriginKind::kNone);
}

TEST_F(OriginsTest, NothingElseIsTakenForEither) {
  Add("the tables were read, one is left", kSaid);
  Add("the tables were read, one is left", "{}", "new_conversation");  // the task said it before the answer did
  EXPECT_EQ(Last().kind, OriginKind::kNone);
  Add("short", R"({"content": "eleven char"})");
  Add("eleven char, and more", "not JSON", "new_conversation");
  EXPECT_EQ(Last().kind, OriginKind::kNone);
  Add("a task", kStarts);
  Add("count the rows of b", "{}", "history_rewritten");
  EXPECT_EQ(Last().kind, OriginKind::kNone);
}

}  // namespace
}  // namespace ingot::view::origins_test
