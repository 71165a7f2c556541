#include "datapool/validate.h"

#include <cmath>
#include <functional>
#include <limits>

#include "datapool/make_pool.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Open;
using testing::Prompt;
using testing::Sampled;

v1::Placeholders Image(int32_t first, int32_t count, const std::string& content = "image-01") {
  v1::Placeholders run;
  run.set_first(first);
  run.set_count(count);
  run.set_content(content);
  return run;
}

TEST(Validate, SegmentsAreWhole) {
  EXPECT_TRUE(ValidateSegment(Prompt({1, 2})).ok());
  EXPECT_TRUE(ValidateSegment(Sampled({1, 2})).ok());
  const std::vector<std::function<void(v1::Segment&)>> faults = {
      [](auto& s) { s.clear_token_ids(); },
      [](auto& s) { s.set_token_ids(1, -1); },
      [](auto& s) { s.mutable_logprobs()->RemoveLast(); },
      [](auto& s) { s.add_logprobs(-1); },
      [](auto& s) { s.set_logprobs(0, std::nanf("")); },
      [](auto& s) { s.set_logprobs(1, -std::numeric_limits<float>::infinity()); },
      [](auto& s) { s.clear_versions(); },
      [](auto& s) { s.mutable_versions(0)->set_count(1); },
      [](auto& s) { s.mutable_versions(0)->set_count(3); },
      [](auto& s) { s.add_versions()->set_count(0); },
      [](auto& s) { s.mutable_versions(0)->set_version(-1); },
      [](auto& s) { s.mutable_versions(0)->set_count(4), s.add_versions()->set_count(-2); },
      [](auto& s) { s.set_source(v1::SOURCE_UNSPECIFIED); },
      [](auto& s) { s.set_source(v1::SOURCE_PROMPT); },  // with logprobs and versions
      [](auto& s) { s.set_source(v1::SOURCE_PROMPT), s.clear_versions(); },
      [](auto& s) { s.set_routes("abc"); },  // of two ids
      [](auto& s) { *s.add_placeholders() = Image(0, 1); },
      [](auto& s) { s.add_alternative_ids(1), s.add_alternative_logprobs(-1); },  // of one of two ids
      [](auto& s) { s.add_alternative_ids(1), s.add_alternative_ids(1), s.add_alternative_logprobs(-1); },
  };
  v1::Segment recorded = Sampled({1, 2});
  for (const int32_t id : {1, 9, 2, 8}) recorded.add_alternative_ids(id), recorded.add_alternative_logprobs(-1);
  EXPECT_EQ(ValidateSegment(recorded), absl::OkStatus());
  for (size_t i = 0; i < faults.size(); ++i) {
    v1::Segment segment = Sampled({1, 2});
    faults[i](segment);
    EXPECT_EQ(ValidateSegment(segment).code(), absl::StatusCode::kInvalidArgument) << "fault " << i;
  }
}

TEST(Validate, PlaceholdersCoverIdsOfAPromptOnce) {
  v1::Segment segment = Prompt({1, 2, 3, 4});
  *segment.add_placeholders() = Image(0, 2);
  *segment.add_placeholders() = Image(2, 2, std::string(64, 'x'));
  EXPECT_EQ(ValidateSegment(segment), absl::OkStatus());
  const std::vector<std::vector<v1::Placeholders>> faults = {
      {Image(0, 0)},
      {Image(0, -1)},
      {Image(-1, 2)},
      {Image(3, 2)},
      {Image(4, 1)},
      {Image(1, std::numeric_limits<int32_t>::max())},
      {Image(0, 2), Image(1, 1)},
      {Image(2, 1), Image(0, 1)},
      {Image(0, 1, "")},
      {Image(0, 1, "short")},
      {Image(0, 1, std::string(65, 'x'))},
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    v1::Segment bad = Prompt({1, 2, 3, 4});
    bad.mutable_placeholders()->Add(faults[i].begin(), faults[i].end());
    EXPECT_EQ(ValidateSegment(bad).code(), absl::StatusCode::kInvalidArgument) << "fault " << i;
  }
  v1::Segment routed = Prompt({1});
  routed.set_routes("ab");
  EXPECT_EQ(ValidateSegment(routed).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Validate, CallsAreWhole) {
  const auto good = Append("e", 0, {Prompt({1})}, {Sampled({2})});
  EXPECT_TRUE(ValidateAppendCall(good, 1 << 20).ok());
  const std::vector<std::function<void(v1::AppendCallRequest&)>> faults = {
      [](auto& r) { r.mutable_call()->clear_call_id(); },
      [](auto& r) { r.mutable_call()->set_call_id(std::string(300, 'x')); },
      [](auto& r) { r.mutable_call()->set_episode_id(std::string("a\0b", 3)); },
      [](auto& r) { r.mutable_call()->set_sequence(-1); },
      [](auto& r) { r.mutable_call()->clear_context_keys(); },
      [](auto& r) { r.mutable_call()->set_context_keys(0, "short"); },
      [](auto& r) { r.mutable_call()->add_sampled_keys(""); },
      [](auto& r) { r.mutable_call()->set_delivered_tokens(-1); },
      [](auto& r) { r.mutable_call()->set_context_tokens(-1); },
      [](auto& r) { r.mutable_call()->clear_context_tokens(); },
      [](auto& r) { r.mutable_call()->set_continued_segments(0); },
      [](auto& r) { r.mutable_call()->set_parent_call_id("p"), r.mutable_call()->set_continued_segments(-1); },
      [](auto& r) { r.mutable_call()->mutable_sampling()->set_temperature(std::nanf("")); },
      [](auto& r) { r.mutable_segments(1)->clear_logprobs(); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    v1::AppendCallRequest request = good;
    faults[i](request);
    EXPECT_EQ(ValidateAppendCall(request, 1 << 20).code(), absl::StatusCode::kInvalidArgument) << "fault " << i;
  }
  EXPECT_EQ(ValidateAppendCall(good, good.ByteSizeLong() - 1).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Validate, EpisodesAreWhole) {
  const std::vector<std::function<void(v1::Episode&)>> faults = {
      [](auto& e) { e.clear_episode_id(); },
      [](auto& e) { e.mutable_ref()->set_group_id(-1); },
      [](auto& e) { e.mutable_ref()->set_sample_index(-1); },
      [](auto& e) { e.mutable_ref()->set_attempt(-1); },
      [](auto& e) { e.set_purpose(static_cast<v1::EpisodePurpose>(7)); },
      [](auto& e) { e.set_state(v1::EPISODE_FINISHED); },
  };
  EXPECT_TRUE(ValidateStoreEpisode(Open("e", 0, 0)).ok());
  for (size_t i = 0; i < faults.size(); ++i) {
    auto request = Open("e", 0, 0);
    faults[i](*request.mutable_episode());
    EXPECT_EQ(ValidateStoreEpisode(request).code(), absl::StatusCode::kInvalidArgument) << "fault " << i;
  }
  EXPECT_TRUE(ValidateStoreEnd(End("e")).ok());
  EXPECT_FALSE(ValidateStoreEnd(End("")).ok());
  EXPECT_FALSE(ValidateStoreEnd(End("e", v1::EPISODE_OPEN)).ok());
  EXPECT_FALSE(ValidateStoreEnd(End("e", v1::EPISODE_FINISHED, std::nan(""))).ok());
  auto signal = End("e");
  (*signal.mutable_signals())["x"] = HUGE_VAL;
  EXPECT_FALSE(ValidateStoreEnd(signal).ok());
  EXPECT_TRUE(ValidateStoreReward(testing::Reward("e", 1)).ok());
  EXPECT_FALSE(ValidateStoreReward(testing::Reward("", 1)).ok());
  EXPECT_FALSE(ValidateStoreReward(testing::Reward("e", std::nan(""))).ok());
  EXPECT_FALSE(ValidateStoreReward(testing::Reward("e", 1, {{"e/0", HUGE_VAL}})).ok());
  auto nothing = testing::Reward("e", 1);
  nothing.clear_reward();
  EXPECT_FALSE(ValidateStoreReward(nothing).ok());
  (*nothing.mutable_signals())["x"] = std::nan("");
  EXPECT_FALSE(ValidateStoreReward(nothing).ok());
  auto call_reward = End("e");
  (*call_reward.mutable_call_rewards())["e/0"] = std::nan("");
  EXPECT_FALSE(ValidateStoreEnd(call_reward).ok());
}

TEST(Validate, RewardsAndSignalsAreWithinTheirBounds) {
  EXPECT_TRUE(ValidateStoreReward(testing::Reward("e", -1e6, {{"e/0", 1e6}})).ok());
  const absl::Status of_episode = ValidateStoreReward(testing::Reward("e", 1e200));
  EXPECT_EQ(of_episode.message(), "reward is 1e+200: it must be a finite number from -1e6 to 1e6; scale it");
  EXPECT_FALSE(ValidateStoreReward(testing::Reward("e", 0, {{"e/0", -1.1e6}})).ok());
  EXPECT_FALSE(ValidateStoreEnd(End("e", v1::EPISODE_FINISHED, 1e308)).ok());
  auto signal = End("e");
  (*signal.mutable_signals())["x"] = 1.7e18;
  EXPECT_TRUE(ValidateStoreEnd(signal).ok());
  (*signal.mutable_signals())["x"] = 1e31;
  EXPECT_FALSE(ValidateStoreEnd(signal).ok());
}

// A record with other bytes would be stored and never be read.
TEST(Validate, StringsAreUtf8) {
  const std::string cut = "a\xE4\xBD", whole = "a\xE4\xBD\xA0";
  v1::StoreGradesRequest grades;
  grades.set_purpose(v1::PURPOSE_TRAIN);
  (*grades.mutable_grades())["e"].add_terms()->set_detail(whole);
  EXPECT_EQ(ValidateStoreGrades(grades), absl::OkStatus());
  (*grades.mutable_grades())["e"].mutable_terms(0)->set_detail(cut);
  const absl::Status status = ValidateStoreGrades(grades);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the grade of 'e': terms.detail is not UTF-8, so the record could not be read back");
  v1::TermValue& term = *(*grades.mutable_grades())["e"].mutable_terms(0);
  term.clear_detail();
  (*term.mutable_measures())[cut] = 1;
  EXPECT_EQ(ValidateStoreGrades(grades).code(), absl::StatusCode::kInvalidArgument) << "a key of a map";

  v1::AppendJournalRequest journal = testing::ClosedRecord(3);
  journal.mutable_records(0)->mutable_closed()->set_reason(whole);
  EXPECT_EQ(ValidateAppendJournal(journal, 1 << 20), absl::OkStatus());
  journal.mutable_records(0)->mutable_closed()->set_reason(cut);
  EXPECT_EQ(ValidateAppendJournal(journal, 1 << 20).code(), absl::StatusCode::kInvalidArgument);

  v1::StoreEpisodeRequest open = Open("e", 0, 0);
  open.mutable_episode()->mutable_task()->set_payload_json(cut);
  EXPECT_EQ(ValidateStoreEpisode(open).code(), absl::StatusCode::kInvalidArgument);
  v1::AppendCallRequest call = Append("e", 0, {Prompt({1})}, {Sampled({2})});
  call.mutable_call()->mutable_sampling()->add_stop(cut);
  EXPECT_EQ(ValidateAppendCall(call, 1 << 20).code(), absl::StatusCode::kInvalidArgument);
  v1::StoreRewardRequest reward = testing::Reward("e", 1);
  (*reward.mutable_facts())["x"] = cut;
  EXPECT_EQ(ValidateStoreReward(reward).code(), absl::StatusCode::kInvalidArgument);
  v1::StoreEndRequest end = End("e");
  end.set_detail(cut);
  EXPECT_EQ(ValidateStoreEnd(end).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Validate, FactsAreBounded) {
  auto facts = testing::Reward("e", 1);
  facts.clear_reward();
  for (int i = 0; i < 64; ++i) (*facts.mutable_facts())[std::to_string(i)] = "1";
  EXPECT_TRUE(ValidateStoreReward(facts).ok());
  (*facts.mutable_facts())["x"] = "1";
  EXPECT_FALSE(ValidateStoreReward(facts).ok());
  auto large = End("e");
  (*large.mutable_facts())["x"] = std::string(262144, '1');
  EXPECT_FALSE(ValidateStoreEnd(large).ok());
}

TEST(Validate, OptionsAreChecked) {
  EXPECT_TRUE(testing::QuickOptions("/x").Validate().ok());
  EXPECT_FALSE(testing::QuickOptions("").Validate().ok());
  const std::vector<std::function<void(StoreOptions&)>> faults = {
      [](auto& o) { o.shards = 0; },
      [](auto& o) { o.shards = 257; },
      [](auto& o) { o.cache_bytes = -1; },
      [](auto& o) { o.write_buffer_bytes = 0; },
      [](auto& o) { o.max_call_bytes = 0; },
      [](auto& o) { o.max_waiting = 0; },
      [](auto& o) { o.retry_after_error_s = -1; },
  };
  for (const auto& fault : faults) {
    StoreOptions options = testing::QuickOptions("/x");
    fault(options);
    EXPECT_FALSE(options.Validate().ok());
  }
}

}  // namespace
}  // namespace ingot::datapool
