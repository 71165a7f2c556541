#include "engines/verification/engine_check.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "base/rng.h"
#include "engines/verification/answer_grammar.h"
#include "engines/verification/weight_verifier.h"

namespace ingot::engines {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kAnswers = 8, kAnswerIds = 32;
constexpr int kMovingIds = 200;  // tokens in the answer that crosses an update
constexpr milliseconds kBeforeUpdate{300};
constexpr char kSalt[] = "ingot-check";

class EngineCheck {
 public:
  explicit EngineCheck(const EngineCheckParts& parts) : parts_(parts), bound_(RoundingBound(*parts.snapshot)) {}

  absl::StatusOr<std::vector<Finding>> Run() {
    INGOT_RETURN_IF_ERROR(parts_.control.Health());
    AskStart();
    if (!kind_.has_value()) return std::move(findings_);
    AskSampled();
    AskScores();
    AskTemperature();
    AskStops();
    AskSeeds();
    AskGrammar();
    AskUnknownKey();
    if (parts_.write != nullptr) AskUpdates();
    if (parts_.may_crash) AskLongSeeded();
    return std::move(findings_);
  }

 private:
  void Add(const std::string& question, Verdict verdict, std::string text, bool required = false) {
    findings_.push_back({question, verdict, std::move(text), required});
  }
  void AddError(const std::string& question, const absl::Status& error, bool required = false) {
    const bool refused = absl::IsInvalidArgument(error) || absl::IsFailedPrecondition(error);
    Add(question, refused ? Verdict::kNotOffered : Verdict::kWrong, base::Shown(std::string(error.message())),
        required);
  }

  v1::GenerateRequest Ask(int index, int32_t ids) const {
    v1::GenerateRequest request;
    request.set_request_id(absl::StrCat("check-", index));
    const auto range = static_cast<uint64_t>(std::max(1, parts_.model.vocab_size / 2));
    for (int i = 0; i < 8; ++i) {
      request.add_prompt_ids(static_cast<int32_t>(base::Mix64(static_cast<uint64_t>(index * 131 + i)) % range));
    }
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_max_new_tokens(std::min(ids, parts_.model.context_length - 9));
    request.mutable_sampling()->set_ignore_eos(true);
    request.set_pinned_version(-1);
    return request;
  }
  GenerateContext Context(LogprobKind kind) const { return {.model = parts_.model, .salt = kSalt, .logprobs = kind}; }
  absl::StatusOr<AnswerEvent> Answer(const v1::GenerateRequest& request) {
    return parts_.control.Answer(request, Context(*kind_), parts_.timeout);
  }

  // Returns Ingot's log-probs for ids [begin, end) of an answer.
  absl::StatusOr<std::vector<float>> Own(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                         const v1::GenerateRequest& asked, const AnswerEvent& answer) {
    std::vector<int32_t> ids(asked.prompt_ids().begin(), asked.prompt_ids().end());
    ids.insert(ids.end(), answer.ids.begin(), answer.ids.end());
    INGOT_ASSIGN_OR_RETURN(std::vector<PromptScores> scores, parts_.reference.Score(snapshot, {ids}));
    std::vector<float>& all = scores[0].logprobs;
    all.erase(all.begin(), all.begin() + asked.prompt_ids_size() - 1);
    return std::move(all);
  }
  static double Mean(const std::vector<float>& a, const std::vector<float>& b, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += std::abs(a[static_cast<size_t>(i)] - b[static_cast<size_t>(i)]);
    return end > begin ? sum / static_cast<double>(end - begin) : 0;
  }

  void AskStart() {
    // Whether `keep` labels the right tokens is measured below.
    const absl::StatusOr<LogprobKind> kind =
        parts_.control.CheckStart(parts_.model, SwapMode::kRecompute, parts_.timeout);
    constexpr char kQuestion[] = "ids, log-probs, versions, control routes";
    if (!kind.ok()) return AddError(kQuestion, kind.status(), /*required=*/true);
    kind_ = *kind;
    Add(kQuestion, Verdict::kRight,
        *kind == LogprobKind::kRaw ? "raw log-probs: support temperature 1"
                                   : "processed log-probs: support any temperature",
        true);
  }

  void AskSampled() {
    constexpr char kQuestion[] = "log-probs of sampled ids";
    double sum = 0, greatest = 0;
    int64_t count = 0;
    for (int i = 0; i < kAnswers; ++i) {
      const v1::GenerateRequest asked = Ask(i, kAnswerIds);
      const absl::StatusOr<AnswerEvent> answer = Answer(asked);
      if (!answer.ok()) return AddError(kQuestion, answer.status(), true);
      const absl::StatusOr<std::vector<float>> own = Own(parts_.snapshot, asked, *answer);
      if (!own.ok()) return AddError(kQuestion, own.status(), true);
      for (size_t j = 0; j < own->size(); ++j) {
        const double difference = std::abs((*own)[j] - answer->logprobs[j]);
        sum += difference;
        greatest = std::max(greatest, difference);
        ++count;
      }
    }
    const double mean = sum / static_cast<double>(std::max<int64_t>(count, 1));
    const bool right = count > 0 && mean <= bound_;
    Add(kQuestion, right ? Verdict::kRight : Verdict::kWrong,
        absl::StrFormat("%d ids differ from Ingot's by %.2g on average, at most %.2g (rounding: %.2g)%s", count, mean,
                        greatest, bound_, right ? "" : "; does the server run this folder, in its type?"),
        true);
  }

  void AskScores() {
    constexpr char kQuestion[] = "log-probs of given ids";
    const auto prompts = VerificationPrompts(parts_.model);
    const absl::StatusOr<std::vector<PromptScores>> own = parts_.reference.Score(parts_.snapshot, prompts);
    if (!own.ok()) return AddError(kQuestion, own.status(), true);
    std::vector<ServerScores> server;
    for (size_t p = 0; p < prompts.size(); ++p) {
      const absl::StatusOr<AnswerEvent> scored = parts_.control.Score(parts_.model, prompts[p], kSalt, parts_.timeout);
      if (!scored.ok()) return AddError(kQuestion, scored.status(), true);
      server.push_back({scored->logprobs, 0, (*own)[p].next[0]});
    }
    const ScoreDifference found = DifferenceOf(*own, server);
    Add(kQuestion, found.scored_mean <= bound_ ? Verdict::kRight : Verdict::kWrong,
        absl::StrFormat("%.2g apart on average, at most %.2g", found.scored_mean, found.max), true);
  }

  void AskTemperature() {
    v1::GenerateRequest hot = Ask(40, 4);
    hot.mutable_sampling()->set_temperature(0.7F);
    const absl::Status served = Answer(hot).status();
    Add("temperature 0.7", served.ok() ? Verdict::kRight : Verdict::kNotOffered,
        served.ok() ? "log-probs are for this temperature" : "needs " + parts_.api.flags().processed_logprobs);
    v1::GenerateRequest cut = Ask(41, 4);
    cut.mutable_sampling()->set_top_p(0.9F);
    const absl::Status truncated = Answer(cut).status();
    Add("top_p 0.9", truncated.ok() ? Verdict::kRight : Verdict::kNotOffered,
        truncated.ok() ? "log-probs are from before truncation" : "needs " + parts_.api.flags().raw_logprobs);
  }

  void AskStops() {
    v1::GenerateRequest greedy = Ask(50, 12);
    greedy.mutable_sampling()->set_temperature(1);
    greedy.mutable_sampling()->set_top_k(1);
    const absl::StatusOr<AnswerEvent> all = Answer(greedy);
    if (absl::IsInvalidArgument(all.status())) return Add("stop ids", Verdict::kNotOffered, "not checked: needs top_k");
    if (!all.ok()) return AddError("stop ids", all.status());
    if (all->ids.empty()) return Add("stop ids", Verdict::kWrong, "an answer has no ids");
    const size_t at = all->ids.size() / 2;
    greedy.mutable_sampling()->add_stop_token_ids(all->ids[at]);
    const absl::StatusOr<AnswerEvent> cut = Answer(greedy);
    if (!cut.ok()) return AddError("stop ids", cut.status());
    const auto first = std::find(all->ids.begin(), all->ids.end(), all->ids[at]) - all->ids.begin();
    const bool right = std::ssize(cut->ids) == first + 1 && cut->finish == ServerFinish::kStop;
    Add("stop ids", right ? Verdict::kRight : Verdict::kWrong,
        absl::StrFormat("an answer whose id %d is a stop id has %d ids", first, cut->ids.size()));
  }

  void AskSeeds() {
    GenerateContext context = Context(*kind_);
    context.seeds = true;
    v1::GenerateRequest asked = Ask(60, 24);
    asked.mutable_sampling()->set_seed(7);
    const auto first = parts_.control.Answer(asked, context, parts_.timeout);
    const auto second = parts_.control.Answer(asked, context, parts_.timeout);
    if (!first.ok() || !second.ok()) return AddError("seeds", first.ok() ? second.status() : first.status());
    if (first->ids.empty()) return Add("seeds", Verdict::kWrong, "an answer has no ids");
    const bool same = first->ids == second->ids;
    Add("seeds", same ? Verdict::kRight : Verdict::kWrong,
        same ? "equal seeds give equal ids" : "equal seeds give different ids");
  }

  void AskGrammar() {
    v1::GenerateRequest asked = Ask(70, 8);
    asked.mutable_sampling()->set_ignore_eos(false);
    asked.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex("[ab]{3}");
    const absl::StatusOr<AnswerEvent> answer = Answer(asked);
    if (!answer.ok()) return AddError("grammars", answer.status());
    AnswerGrammars grammars(parts_.tokenizer);
    const std::shared_ptr<const AnswerGrammar> grammar = grammars.Of(asked.sampling());
    if (grammar == nullptr) return Add("grammars", Verdict::kRight, "a regex was accepted");
    const bool stopped = answer->finish == ServerFinish::kStop;
    const absl::Status follows = grammars.Check(*grammar, asked, answer->ids, stopped, parts_.model.eos_ids);
    if (!follows.ok()) return Add("grammars", Verdict::kWrong, std::string(follows.message()));
    Add("grammars", Verdict::kRight, "an answer follows a regex");
  }

  // A server that ignores keys would also ignore a misspelled one.
  void AskUnknownKey() {
    absl::StatusOr<ServerRequest> request = parts_.api.Generate(Ask(80, 1), Context(*kind_));
    if (!request.ok()) return;
    const size_t at = request->body.find("\"temperature\"");
    if (at == std::string::npos) return;
    request->body.insert(at, "\"ingot_unknown_key\":1,");
    const absl::Status taken = parts_.control.Call(*request, parts_.timeout).status();
    Add("unknown sampling keys", taken.ok() ? Verdict::kWrong : Verdict::kRight,
        taken.ok() ? "ignored without an error" : "rejected");
  }

  void AskUpdates() {
    const auto other = parts_.reference.Perturb(parts_.snapshot);
    const auto folder = other.ok() ? parts_.write(*other) : absl::StatusOr<std::string>(other.status());
    const auto own = folder.ok() ? parts_.write(parts_.snapshot) : folder;
    if (!own.ok()) return AddError("weights from a folder", own.status(), true);
    AskLoad(*other, *folder);
    for (const SwapMode mode : {SwapMode::kKeep, SwapMode::kRecompute}) {
      if (const absl::Status back = Load(SwapMode::kAbort, *own, "check-given"); !back.ok()) {
        return AddError("weights under a running request", back);
      }
      AskMoving(mode, *other, *folder);
    }
    if (const absl::Status back = Load(SwapMode::kAbort, *own, "check-given"); !back.ok()) {
      AddError("reloading the first weights", back, true);
    }
  }

  absl::Status Load(SwapMode mode, const std::string& folder, const std::string& label) {
    INGOT_RETURN_IF_ERROR(parts_.control.Pause(mode, parts_.timeout));
    INGOT_RETURN_IF_ERROR(parts_.control.LoadAndLabel(folder, label, parts_.timeout));
    return parts_.control.Call(parts_.api.Resume(), parts_.timeout).status();
  }

  void AskLoad(const std::shared_ptr<const weights::Snapshot>& other, const std::string& folder) {
    constexpr char kQuestion[] = "weights from a folder";
    WeightVerifier verifier(parts_.reference, parts_.model, 0);
    const auto given = verifier.Expect(parts_.snapshot), expected = verifier.Expect(other);
    if (!given.ok() || !expected.ok())
      return AddError(kQuestion, given.ok() ? expected.status() : given.status(), true);
    if (const absl::Status loaded = Load(SwapMode::kAbort, folder, "check-other"); !loaded.ok()) {
      return AddError(kQuestion, loaded, true);
    }
    const auto found = verifier.VerifyTrial(parts_.control, *other, "check-other", *expected, *given, parts_.timeout);
    if (!found.ok()) return Add(kQuestion, Verdict::kWrong, std::string(found.status().message()), true);
    Add(kQuestion, Verdict::kRight, "all tensors arrive: " + found->Text(), true);
  }

  void AskMoving(SwapMode mode, const std::shared_ptr<const weights::Snapshot>& other, const std::string& folder) {
    const std::string question =
        absl::StrCat("an update under a running request, swap: ", mode == SwapMode::kKeep ? "keep" : "recompute");
    const v1::GenerateRequest asked = Ask(90, kMovingIds);
    absl::StatusOr<AnswerEvent> answer = absl::UnknownError("no answer");
    std::thread stream([&] { answer = Answer(asked); });
    std::this_thread::sleep_for(kBeforeUpdate);
    const absl::Status loaded = Load(mode, folder, "check-other");
    stream.join();
    if (!loaded.ok() || !answer.ok()) return AddError(question, loaded.ok() ? answer.status() : loaded);
    if (answer->spans.size() != 2) {
      return Add(question, Verdict::kNotOffered, "not measured: the answer did not cross the update");
    }
    const auto before = Own(parts_.snapshot, asked, *answer), after = Own(other, asked, *answer);
    if (!before.ok() || !after.ok()) return AddError(question, before.ok() ? after.status() : before.status());
    const int64_t border = answer->spans[1].begin, end = std::ssize(answer->ids);
    if (border < 0 || border > end) {
      return Add(question, Verdict::kWrong, "the spans of its weight versions do not fit its ids");
    }
    const double old_mean = Mean(*before, answer->logprobs, 0, border);
    const double new_mean = Mean(*after, answer->logprobs, border, end);
    const bool right = old_mean <= bound_ && (mode == SwapMode::kKeep || new_mean <= bound_);
    Add(question, right ? Verdict::kRight : Verdict::kWrong,
        absl::StrFormat("%d ids before it are %.2g apart, and %d after it %.2g%s", border, old_mean, end - border,
                        new_mean, mode == SwapMode::kKeep ? " (their KV cache is mixed)" : ""));
  }

  // vLLM 0.32 on a CPU crashes when a seeded prompt is computed in pieces.
  void AskLongSeeded() {
    constexpr char kQuestion[] = "a long prompt with a seed";
    GenerateContext context = Context(*kind_);
    context.seeds = true;
    v1::GenerateRequest asked = Ask(99, 4);
    while (asked.prompt_ids_size() < parts_.model.context_length - 8) asked.add_prompt_ids(asked.prompt_ids(0));
    asked.mutable_sampling()->set_seed(7);
    const absl::Status served = parts_.control.Answer(asked, context, parts_.timeout).status();
    const absl::Status healthy = parts_.control.Health();
    if (!healthy.ok()) return Add(kQuestion, Verdict::kWrong, "the server exited: " + base::Shown(served.ToString()));
    if (!served.ok()) return AddError(kQuestion, served);
    Add(kQuestion, Verdict::kRight, absl::StrCat(asked.prompt_ids_size(), " ids"));
  }

  const EngineCheckParts& parts_;
  const double bound_;
  std::optional<LogprobKind> kind_;
  std::vector<Finding> findings_;
};

}  // namespace

absl::StatusOr<std::vector<Finding>> CheckEngine(const EngineCheckParts& parts) { return EngineCheck(parts).Run(); }

bool CanSample(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.required && f.verdict != Verdict::kRight; });
}

}  // namespace ingot::engines
