// What is recorded of a server's answer, and the events that carry it.
#include "engines/api/answer_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engines/api/event_stream.h"

namespace ingot::engines::answer_reader_test {
namespace {

const ServedModel kModel{.vocab_size = 24, .context_length = 100, .eos_ids = {}};

v1::GenerateRequest Ask() {
  v1::GenerateRequest request;
  request.add_prompt_ids(1);
  request.mutable_sampling()->set_max_new_tokens(10);
  return request;
}

AnswerReader::VersionOf Known() {
  return [](const std::string& label) -> std::optional<int64_t> {
    if (label == "one" || label == "one again") return 1;
    if (label == "two") return 2;
    return std::nullopt;
  };
}

AnswerEvent Event(std::vector<int32_t> ids, ServerFinish finish = ServerFinish::kNone,
                  std::vector<LabelSpan> spans = {}) {
  AnswerEvent event;
  event.logprobs.assign(ids.size(), -1);
  event.ids = std::move(ids);
  event.finish = finish;
  event.spans = std::move(spans);
  return event;
}

// Takes two ids, and then the event.
absl::StatusOr<v1::GenerateChunk> TakeLast(const AnswerEvent& last,
                                           const AnswerReader::VersionRules& rules = {.sent_as = "one"}) {
  AnswerReader reader(Ask(), kModel, nullptr, {});
  EXPECT_TRUE(reader.Take(Event({2, 3}), 1, rules, Known()).ok());
  return reader.Take(last, 1, rules, Known());
}

TEST(AnswerReader, GivesProvisionalVersionsAndThenThoseOfTheServer) {
  AnswerReader reader(Ask(), kModel, nullptr, {});
  const auto first = reader.Take(Event({2, 3}), 1, {.sent_as = "one"}, Known());
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->provisional());
  EXPECT_EQ(first->versions(0).count(), 2);
  const auto last =
      reader.Take(Event({4}, ServerFinish::kStop, {{"one", 0, 1}, {"two", 1, 3}}), 2, {.sent_as = "one"}, Known());
  ASSERT_TRUE(last.ok()) << last.status();
  ASSERT_EQ(last->answer_versions_size(), 2);
  EXPECT_EQ(last->answer_versions(0).version(), 1);
  EXPECT_FALSE(last->answer_versions(0).kv_mixed());
  EXPECT_EQ(last->answer_versions(1).count(), 2);
  EXPECT_TRUE(last->answer_versions(1).kv_mixed());
}

// A request may be sent at one version and computed at the next, with cached prefixes of the first.
TEST(AnswerReader, CountsALaterVersionsTokensAsMixedEvenFromTheFirst) {
  const auto last = TakeLast(Event({}, ServerFinish::kStop, {{"two", 0, 2}}));
  EXPECT_TRUE(last->answer_versions(0).kv_mixed());
  const auto recomputed =
      TakeLast(Event({}, ServerFinish::kStop, {{"two", 0, 2}}), {.sent_as = "one", .keeps_cache = false});
  EXPECT_FALSE(recomputed->answer_versions(0).kv_mixed());
}

// After the trainer went back and made a version again, its number alone does not name the weights.
TEST(AnswerReader, CountsOtherWeightsOfTheSameNumberAsMixed) {
  const auto again = TakeLast(Event({}, ServerFinish::kStop, {{"one", 0, 1}, {"one again", 1, 2}}));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->answer_versions(0).kv_mixed());
  EXPECT_EQ(again->answer_versions(1).version(), 1);
  EXPECT_TRUE(again->answer_versions(1).kv_mixed());
}

TEST(AnswerReader, RejectsVersionsThatDoNotCoverTheAnswer) {
  for (const std::vector<LabelSpan>& spans : std::vector<std::vector<LabelSpan>>{{},
                                                                                 {{"one", 0, 1}},
                                                                                 {{"one", 1, 2}},
                                                                                 {{"one", 0, 1}, {"two", 0, 2}},
                                                                                 {{"one", 0, 1}, {"two", 1, 0}},
                                                                                 {{"one", -1, 2}}}) {
    EXPECT_TRUE(absl::IsDataLoss(TakeLast(Event({}, ServerFinish::kStop, spans)).status()));
  }
}

TEST(AnswerReader, RejectsForeignLabelsAndVersionsThatAreNotAllowed) {
  const AnswerEvent foreign = Event({}, ServerFinish::kStop, {{"one", 0, 1}, {"default", 1, 2}});
  EXPECT_TRUE(absl::IsUnavailable(TakeLast(foreign).status()));
  const AnswerEvent one = Event({}, ServerFinish::kStop, {{"one", 0, 2}});
  EXPECT_TRUE(absl::IsUnavailable(TakeLast(one, {.at_least = 2}).status()));
  EXPECT_TRUE(absl::IsUnavailable(TakeLast(one, {.pinned = 2}).status()));
  EXPECT_TRUE(TakeLast(one, {.pinned = 1}).ok());
  for (const ServerFinish finish : {ServerFinish::kAborted, ServerFinish::kFailed}) {
    EXPECT_TRUE(absl::IsUnavailable(TakeLast(Event({}, finish, {{"one", 0, 2}})).status()));
  }
}

TEST(AnswerReader, RejectsIdsAndLogprobsThatCannotBeRecorded) {
  for (const float bad : {0.1F, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::infinity()}) {
    AnswerEvent event = Event({4, 5});
    event.logprobs[1] = bad;
    EXPECT_TRUE(absl::IsDataLoss(TakeLast(event).status())) << bad;
  }
  AnswerEvent missing = Event({4, 5});
  missing.logprobs.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(TakeLast(missing).status()));
  for (const int32_t id : {-1, 24}) EXPECT_TRUE(absl::IsDataLoss(TakeLast(Event({id})).status()));
  EXPECT_TRUE(absl::IsDataLoss(TakeLast(Event(std::vector<int32_t>(9, 1))).status()));  // eleven in all
  EXPECT_TRUE(TakeLast(Event(std::vector<int32_t>(8, 1))).ok());
}

TEST(EventStream, SplitsEventsWhereverTheBytesAreCut) {
  const std::string text = ": comment\r\ndata: one\r\n\r\nevent: x\ndata: two\ndata:lines\n\n\n\ndata: [DONE]\n\n";
  for (size_t step = 1; step <= text.size(); ++step) {
    EventStream stream;
    std::vector<std::string> seen;
    for (size_t at = 0; at < text.size(); at += step) {
      ASSERT_TRUE(stream
                      .Push(std::string_view(text).substr(at, step),
                            [&](std::string_view data) {
                              seen.emplace_back(data);
                              return absl::OkStatus();
                            })
                      .ok());
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "two\nlines", "[DONE]"})) << step;
  }
}

TEST(EventStream, RejectsAnEventOverTheLimit) {
  const auto take = [](std::string_view) { return absl::OkStatus(); };
  EventStream line, lines;
  EXPECT_TRUE(absl::IsDataLoss(line.Push(std::string(EventStream::kMostBytes + 1, 'x'), take)));
  absl::Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) status = lines.Push("data: " + std::string(1 << 20, 'x') + "\n", take);
  EXPECT_TRUE(absl::IsDataLoss(status));
}

}  // namespace
}  // namespace ingot::engines::answer_reader_test
