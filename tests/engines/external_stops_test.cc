// Stop strings of random requests, whose texts reach Ingot in random pieces: the external engine ends each answer where
// Ingot's own engine does.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "base/rng.h"
#include "engines/external_rig.h"
#include "rollout/engine/engine.h"
#include "rollout/fake_model.h"
#include "trials.h"

namespace ingot::engines::external_stops_test {
namespace {

using base::json::object;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)

class ExternalStops : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalStops, kEachServer, KindName);

constexpr int32_t kEnd = 23;
constexpr int kAtOnce = 50;

// Characters in parts, spaces, and pieces that overlap, so that a stop string spans tokens and begins inside them.
const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces = {
      "a",        "b",        "ab",       "ba", "aab", " ",  " a",   "b ", "\n", "\n\n", "\xC3",  "\xA9",
      "\xC3\xA9", "\xF0\x9F", "\x98\x80", "</", "/s",  "s>", "</s>", "<",  ">",  "ba\n", "a\xC3", "<|end|>"};
  return pieces;
}

struct Random {
  uint64_t seed, drawn = 0;
  int operator()(int bound) { return static_cast<int>(base::DeriveSeed(seed, drawn++) % static_cast<uint64_t>(bound)); }
};

// A part of a text that the pieces can spell, from any byte to any byte.
std::string RandomStop(Random& random) {
  while (true) {
    std::string text;
    for (int n = 1 + random(4); n > 0; --n) text += Pieces()[static_cast<size_t>(random(kVocab))];
    if (text.empty()) continue;
    const auto from = static_cast<size_t>(random(static_cast<int>(text.size())));
    const std::string stop = text.substr(from, 1 + static_cast<size_t>(random(static_cast<int>(text.size() - from))));
    if (stop.size() > 1 || random(4) == 0) return stop;  // short ones end every answer at once
  }
}

v1::GenerateRequest RandomAsk(Random& random) {
  v1::GenerateRequest ask;
  ask.set_request_id("r");
  for (int n = 1 + random(4); n > 0; --n) ask.add_prompt_ids(random(kVocab));
  v1::SamplingParams& sampling = *ask.mutable_sampling();
  sampling.set_temperature(1);
  sampling.set_max_new_tokens(1 + random(40));
  sampling.set_ignore_eos(random(3) > 0);
  for (int n = 1 + random(3); n > 0; --n) sampling.add_stop(RandomStop(random));
  if (sampling.ignore_eos() && random(4) == 0) sampling.set_min_new_tokens(1 + random(6));
  if (sampling.min_new_tokens() == 0 && random(8) == 0) sampling.add_stop_token_ids(random(kVocab));
  ask.set_pinned_version(-1);
  return ask;
}

// How an answer ended.
struct End {
  size_t ids = 0;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  std::string stop;
  bool operator==(const End&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const End& end) {
    return out << end.ids << " ids, " << v1::FinishReason_Name(end.finish) << ", '" << end.stop << "'";
  }
};

// The rule in its simplest form, over the answer's whole text.
End Rule(const v1::GenerateRequest& ask, const std::vector<int32_t>& ids) {
  const v1::SamplingParams& sampling = ask.sampling();
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i >= static_cast<size_t>(sampling.min_new_tokens())) {
      text += Pieces()[static_cast<size_t>(ids[i])];
      size_t best_end = std::string::npos;
      std::string best;
      for (const std::string& stop : sampling.stop()) {
        const size_t at = text.find(stop);
        if (at == std::string::npos) continue;
        const size_t end = at + stop.size();
        if (best.empty() || end < best_end || (end == best_end && stop.size() > best.size())) {
          best = stop;
          best_end = end;
        }
      }
      if (!best.empty()) return {i + 1, v1::FINISH_STOP, best};
    }
    const auto& stops = sampling.stop_token_ids();
    const bool ends = std::find(stops.begin(), stops.end(), ids[i]) != stops.end();
    if (ends || (!sampling.ignore_eos() && ids[i] == kEnd)) return {i + 1, v1::FINISH_STOP, ""};
    if (static_cast<int32_t>(i) + 1 == sampling.max_new_tokens()) return {i + 1, v1::FINISH_LENGTH, ""};
  }
  return {};
}

// Ingot's engine on a model that draws given ids.
class OwnEngine {
 public:
  explicit OwnEngine(std::shared_ptr<const text::Tokenizer> tokenizer) {
    rollout::EngineOptions options = Options();
    options.kv_block_tokens = 4;
    options.kv_cache_tokens = 400;
    auto runner = std::make_unique<rollout::FakeRunner>(kVocab, 8192, options.kv_cache_tokens, options.kv_block_tokens);
    runner->eos = {kEnd};
    runner->edit = [this](std::vector<float>& row) {
      std::fill(row.begin(), row.end(), -std::numeric_limits<float>::infinity());
      row[drawn_ < script_.size() ? static_cast<size_t>(script_[drawn_]) : 0] = 0;
      ++drawn_;
    };
    rollout::Engine::Parts parts;
    parts.runner = std::move(runner);
    parts.tokenizer = std::move(tokenizer);
    engine_ = *rollout::Engine::Create(options, std::move(parts), rollout::FakeSnapshot(1, 1001));
  }
  End Ask(const v1::GenerateRequest& ask, const std::vector<int32_t>& script) {
    script_ = script;
    drawn_ = 0;
    Collect answer;
    const auto request = engine_->Generate(ask, answer.OnChunk());
    EXPECT_EQ(answer.Wait(), absl::OkStatus());
    return {answer.ids.size(), answer.last.finish(), answer.last.stop_string()};
  }

 private:
  std::vector<int32_t> script_;
  size_t drawn_ = 0;
  std::unique_ptr<rollout::Engine> engine_;
};

TEST_P(ExternalStops, RandomAnswersEndWhereIngotsEngineEndsThem) {
  const bool strips = IsVllm();  // a tokenizer of each kind
  const auto tokenizer = std::make_shared<rollout::PieceTokenizer>(Pieces(), strips);
  FakeServer server;
  Rig rig({}, Options(), server.url(), /*adapters=*/false, WriteSeed, {.tokenizer = tokenizer});
  ASSERT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  server.Fault("burst", 5);
  OwnEngine own(tokenizer);
  Random random{.seed = 7};
  int stopped = 0;
  for (int asked = 0; asked < Trials(500, 5000); asked += kAtOnce) {
    std::vector<v1::GenerateRequest> asks;
    std::deque<Collect> answers(kAtOnce);
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    for (Collect& answer : answers) {
      asks.push_back(RandomAsk(random));
      requests.push_back(rig.engine->Generate(asks.back(), answer.OnChunk()));
    }
    for (size_t i = 0; i < asks.size(); ++i) {
      ASSERT_EQ(answers[i].Wait(), absl::OkStatus()) << asks[i].DebugString();
      const End end{answers[i].ids.size(), answers[i].last.finish(), answers[i].last.stop_string()};
      ASSERT_EQ(end, Rule(asks[i], answers[i].ids)) << asks[i].DebugString();
      std::vector<int32_t> script = answers[i].ids;
      script.resize(script.size() + 3, random(kVocab));  // which the server drew in vain, or never
      ASSERT_EQ(end, own.Ask(asks[i], script)) << asks[i].DebugString();
      CheckAnswer(answers[i], asks[i].prompt_ids_size(), SeedOf);
      stopped += !end.stop.empty();
    }
  }
  EXPECT_GT(stopped, 100) << "too few answers have a stop string";
}

}  // namespace
}  // namespace ingot::engines::external_stops_test
