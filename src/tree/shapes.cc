#include "tree/shapes.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace ingot::tree {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int kTurnsPerSummary = 10, kTurnsInWindow = 10, kSamplesPerGroup = 4;

class Maker {
 public:
  Maker(double scale, int32_t vocab) : scale_(scale), vocab_(vocab) {}

  // Returns `count` tokens at scale 1.
  Tokens Text(int64_t count) {
    Tokens tokens(static_cast<size_t>(std::max<int64_t>(1, std::llround(static_cast<double>(count) * scale_))));
    for (int32_t& token : tokens) token = static_cast<int32_t>(base::UniformAt(1, draws_++) * vocab_);
    return tokens;
  }

  void Call(Tokens context, const Tokens& sampled, int32_t episode = 0, int32_t group = 0) {
    CallPath call;
    call.call_id = absl::StrCat("call-", calls_.size());
    call.episode = episode;
    call.group = group;
    call.context = TokenPath(std::move(context));
    call.sampled = sampled;
    call.logprobs.assign(sampled.size(), -1.0f);
    call.versions.assign(sampled.size(), 0);
    call.kv_mixed.assign(sampled.size(), 0);
    calls_.push_back(std::move(call));
  }

  std::vector<CallPath> TakePaths() { return std::move(calls_); }

 private:
  const double scale_;
  const int32_t vocab_;
  uint64_t draws_ = 0;
  std::vector<CallPath> calls_;
};

void Add(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

void Dialogue(Maker& make, int64_t turns, const std::string& kind) {
  const Tokens prompt = make.Text(4096);
  std::vector<Tokens> history;  // the tokens that later turns see, by turn
  for (int64_t turn = 0; turn < turns; ++turn) {
    if (kind == "summary" && turn > 0 && turn % kTurnsPerSummary == 0) history = {make.Text(512)};
    if (kind == "window" && history.size() > kTurnsInWindow) history.erase(history.begin());
    Tokens context = prompt;
    for (const Tokens& seen : history) Add(context, seen);
    const Tokens question = make.Text(512), thought = make.Text(256), answer = make.Text(256);
    Add(context, question);
    Tokens sampled = thought;
    Add(sampled, answer);
    make.Call(context, sampled);
    Tokens seen = question;
    Add(seen, kind == "thinking" ? answer : sampled);
    history.push_back(std::move(seen));
  }
}

void SharedSystem(Maker& make, int64_t groups) {
  const Tokens system = make.Text(8192);
  for (int32_t g = 0; g < groups; ++g) {
    Tokens context = system;
    Add(context, make.Text(512));
    for (int32_t s = 0; s < kSamplesPerGroup; ++s) make.Call(context, make.Text(512), g * kSamplesPerGroup + s, g);
  }
}

void Group(Maker& make, int64_t samples, int64_t prompt_k) {
  const Tokens prompt = make.Text(prompt_k * 1024);
  for (int32_t s = 0; s < samples; ++s) make.Call(prompt, make.Text(1024), s);
}

// Returns "8" or "8k" as a number in [1, most]. 0 = not such a number.
int64_t Number(std::string_view text, int64_t most) {
  int64_t value = 0;
  return absl::SimpleAtoi(base::View(text), &value) && value >= 1 && value <= most ? value : 0;
}

}  // namespace

std::vector<std::string> WorkloadShapes() {
  return {"dialogue-5",   "dialogue-10", "dialogue-20", "dialogue-50", "dialogue-100", "dialogue-150",
          "system-16",    "group-8-1k",  "group-8-8k",  "group-8-32k", "group-16-1k",  "group-16-8k",
          "group-16-32k", "thinking-20", "summary-50",  "window-50"};
}

absl::StatusOr<std::vector<CallPath>> MakeWorkload(const std::string& shape, double scale, int32_t vocab) {
  if (!(scale > 0) || !std::isfinite(scale) || vocab < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a workload needs a scale above 0 and at least two tokens; got ", scale, " and ", vocab));
  }
  const std::vector<std::string> parts = absl::StrSplit(shape, '-');
  const int64_t count = parts.size() >= 2 ? Number(parts[1], parts[0] == "group" ? 1000 : 10000) : 0;
  Maker make(scale, vocab);
  if (parts.size() == 2 && count > 0 &&
      (parts[0] == "dialogue" || parts[0] == "thinking" || parts[0] == "summary" || parts[0] == "window")) {
    Dialogue(make, count, parts[0]);
  } else if (parts.size() == 2 && count > 0 && count <= 1000 && parts[0] == "system") {
    SharedSystem(make, count);
  } else if (parts.size() == 3 && count > 0 && parts[0] == "group" && parts[2].ends_with('k') &&
             Number(std::string_view(parts[2]).substr(0, parts[2].size() - 1), 1000) > 0) {
    Group(make, count, Number(std::string_view(parts[2]).substr(0, parts[2].size() - 1), 1000));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unknown shape '", shape,
                                                   "'; known: ", absl::StrJoin(WorkloadShapes(), ", "),
                                                   ", and the same shapes with other numbers"));
  }
  return make.TakePaths();
}

}  // namespace ingot::tree
