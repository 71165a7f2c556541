// What a gateway reports to UserFeedback about the user's message after an answer.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gateway/fakes.h"
#include "gateway/user_feedback.h"

namespace ingot::gateway::next_message_test {
namespace {

using base::json::array;

class Listener final : public UserFeedback {
 public:
  std::string UserOf(const std::string&) const override { return "alice"; }
  absl::Status Give(const std::string&, const GivenFeedback&) override { return absl::OkStatus(); }
  void OnNextMessage(NextMessage next) override {
    base::MutexLock lock(mu_);
    heard_.push_back(std::move(next));
  }
  std::vector<NextMessage> heard() const {
    base::MutexLock lock(mu_);
    return heard_;
  }

 private:
  mutable base::Mutex mu_;
  std::vector<NextMessage> heard_ ABSL_GUARDED_BY(mu_);
};

class NextMessageTest : public ::testing::Test {
 protected:
  NextMessageTest()
      : world_([](const auto&) {
          Script script;
          script.text = "It is 3.";
          return script;
        }),
        gateway_(Gateway::Create(world_.options, {.engine = world_.engine,
                                                  .pool = &world_.pool,
                                                  .tokenizer = world_.engine->tokenizer,
                                                  .format = world_.format,
                                                  .feedback = &listener_,
                                                  .clock = &world_.wall})
                     .value()) {}
  void Chat(array messages) {
    auto flag = std::make_shared<Flag>();
    const auto answer = gateway_->StartAnswer({.api_key = "key", .episode = {}}, *FindDialect("chat.completions"),
                                              {.body = base::PrintJson(Body(std::move(messages))), .headers = {}},
                                              [flag] { flag->Set(); });
    while (flag->WaitAndClear()) {
      const Answer::Output out = answer->TakeOutput();
      if (!out.done) continue;
      ASSERT_TRUE(out.status.ok()) << out.status;
      return;
    }
  }

  World world_;
  Listener listener_;
  std::unique_ptr<Gateway> gateway_;
};

TEST_F(NextMessageTest, IsReportedOnceWithTheAnswerThatItFollows) {
  const array first = {Msg("system", "You add."), Msg("user", "1+2?")};
  Chat(first);
  EXPECT_TRUE(listener_.heard().empty());
  array second = first;
  second.push_back(Msg("assistant", "It is 3."));
  second.push_back(Msg("user", "thanks"));
  Chat(second);
  const std::vector<NextMessage> heard = listener_.heard();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].call_id, world_.pool.calls().at(0).call_id());
  EXPECT_EQ(heard[0].question, "1+2?");
  EXPECT_EQ(heard[0].answer, "It is 3.");
  EXPECT_EQ(heard[0].message, "thanks");
}

TEST_F(NextMessageTest, IsNotReportedAfterAnAnswerThatTheModelDidNotGive) {
  Chat({Msg("user", "1+2?")});
  Chat({Msg("user", "1+2?"), Msg("assistant", "It is 4."), Msg("user", "thanks")});
  Chat({Msg("user", "1+2?"), Msg("assistant", "It is 3."), Msg("user", "and 2+2?"), Msg("assistant", "It is 5."),
        Msg("user", "thanks")});
  EXPECT_TRUE(listener_.heard().empty());
}

TEST_F(NextMessageTest, IsTheUsersAlone) {
  Chat({Msg("user", "1+2?")});
  Chat({Msg("user", "1+2?"), Msg("assistant", "It is 3."), Msg("system", "Be brief.")});
  Chat({Msg("user", "1+2?"), Msg("assistant", "It is 3."), Msg("user", "thanks"), Msg("user", "bye")});
  EXPECT_TRUE(listener_.heard().empty());
}

}  // namespace
}  // namespace ingot::gateway::next_message_test
