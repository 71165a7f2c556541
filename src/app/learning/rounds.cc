#include "app/learning/rounds.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/json.h"
#include "trainer/checkpoints/checkpoint.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;

constexpr std::array<const char*, 4> kOutcomes = {"open", "deployed", "rejected", "failed"};

json::object JsonOf(const Round& round) {
  json::array answers, reasons;
  for (const RatedAnswer& answer : round.answers) {
    answers.push_back(json::object{{"call", answer.call_id},
                                   {"conversation", answer.episode_id},
                                   {"reward", answer.reward},
                                   {"judged", answer.judged}});
  }
  for (const std::string& reason : round.reasons) reasons.push_back(json::string(reason));
  json::object figures;
  for (const auto& [name, value] : round.evaluation) figures[name] = value;
  return {{"round", round.number},
          {"outcome", NameOf(round.outcome)},
          {"from", round.from},
          {"version", round.version},
          {"restores", round.restores},
          {"reward_mean", round.reward_mean()},
          {"reasons", std::move(reasons)},
          {"evaluation", std::move(figures)},
          {"began_unix_ns", round.began_unix_ns},
          {"decided_unix_ns", round.decided_unix_ns},
          {"answers", std::move(answers)}};
}

Outcome OutcomeOf(const std::string& name) {
  for (size_t i = 0; i < kOutcomes.size(); ++i) {
    if (name == kOutcomes.at(i)) return static_cast<Outcome>(i);
  }
  throw std::invalid_argument("outcome");
}

RatedAnswer AnswerFrom(const json::value& answer) {
  RatedAnswer read;
  read.call_id = std::string(answer.at("call").as_string());
  read.episode_id = std::string(answer.at("conversation").as_string());
  read.reward = answer.at("reward").to_number<double>();
  const json::value* const judged = base::Find(answer, "judged");  // absent in files of earlier versions of Ingot
  read.judged = judged != nullptr && judged->as_bool();
  return read;
}

// REQUIRES: called where exceptions of Boost.JSON are caught.
Round RoundFrom(const json::value& parsed) {
  const auto text = [](const json::value& value) { return std::string(value.as_string()); };
  Round round;
  round.number = parsed.at("round").to_number<int64_t>();
  round.outcome = OutcomeOf(text(parsed.at("outcome")));
  round.from = parsed.at("from").to_number<int64_t>();
  round.version = parsed.at("version").to_number<int64_t>();
  round.began_unix_ns = parsed.at("began_unix_ns").to_number<int64_t>();
  round.decided_unix_ns = parsed.at("decided_unix_ns").to_number<int64_t>();
  for (const json::value& reason : parsed.at("reasons").as_array()) round.reasons.push_back(text(reason));
  for (const auto& [name, value] : parsed.at("evaluation").as_object()) {
    if (value.is_number()) round.evaluation[std::string(name)] = value.to_number<double>();
  }
  if (const json::value* const restores = base::Find(parsed, "restores")) {
    round.restores = restores->to_number<int64_t>();
  }
  for (const json::value& answer : parsed.at("answers").as_array()) round.answers.push_back(AnswerFrom(answer));
  return round;
}

absl::StatusOr<Round> ReadRound(const std::string& path, int64_t number) {
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  const auto damaged = [&path] {
    return absl::DataLossError(absl::StrCat(path, " is damaged: restore it from a backup, or start a new run"));
  };
  const absl::StatusOr<json::value> parsed = base::ParseJson(text);
  if (!parsed.ok()) return damaged();
  try {
    Round round = RoundFrom(*parsed);
    return round.number == number ? absl::StatusOr<Round>(std::move(round)) : damaged();
  } catch (const std::exception&) {
    return damaged();
  }
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", error.message())) : absl::OkStatus();
}

}  // namespace

std::string NameOf(Outcome outcome) { return kOutcomes.at(static_cast<size_t>(outcome)); }

double Round::reward_mean() const {
  double sum = 0;
  for (const RatedAnswer& answer : answers) sum += answer.reward;
  return answers.empty() ? 0 : sum / static_cast<double>(answers.size());
}

absl::StatusOr<Rounds> Rounds::Open(const std::string& run_path) {
  Rounds rounds(run_path);
  INGOT_RETURN_IF_ERROR(MakeFolder(run_path + "/rounds"));
  std::error_code none;
  int64_t files = 0;  // counted first, because a server may add rounds while a command reads them
  for (const fs::directory_entry& entry : fs::directory_iterator(run_path + "/rounds", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("round-") && name.ends_with(".json")) ++files;
  }
  for (int64_t number = 0; fs::exists(rounds.PathOf(number), none); ++number) {
    INGOT_ASSIGN_OR_RETURN(rounds.rounds_.emplace_back(), ReadRound(rounds.PathOf(number), number));
  }
  if (files <= std::ssize(rounds.rounds_)) return rounds;
  return absl::DataLossError(absl::StrCat(rounds.PathOf(std::ssize(rounds.rounds_)),
                                          " is missing, but there are later rounds: restore it from a backup"));
}

std::string Rounds::PathOf(int64_t round) const {
  return absl::StrFormat("%s/rounds/round-%08d.json", run_path_, round);
}

std::string Rounds::CandidateRoot(int64_t round) const { return absl::StrCat(run_path_, "/rounds/candidate-", round); }

absl::Status Rounds::Store(const Round& round) {
  INGOT_RETURN_IF_ERROR(base::ReplaceFile(PathOf(round.number), base::PrintJson(JsonOf(round)) + "\n"));
  rounds_.resize(static_cast<size_t>(round.number));
  rounds_.push_back(round);
  return absl::OkStatus();
}

const Round* Rounds::deployed() const {
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
    if (round->outcome == Outcome::kDeployed) return &*round;
  }
  return nullptr;
}

std::map<std::string, int64_t> Rounds::RoundsOfAnswers() const {
  std::map<std::string, int64_t> rounds;
  for (const Round& round : rounds_) {
    for (const RatedAnswer& answer : round.answers) rounds[answer.call_id] = round.number;
  }
  return rounds;
}

absl::Status Rounds::Settle(const Round& round) const {
  if (round.number == 0) return absl::OkStatus();
  const std::string root = CandidateRoot(round.number);
  const std::string name = trainer::CheckpointName(round.version);
  const std::string from = absl::StrCat(root, "/", name), to = absl::StrCat(run_path_, "/checkpoints/", name);
  std::error_code error;
  if (round.outcome == Outcome::kDeployed && fs::exists(from, error)) {
    fs::rename(from, to, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot move ", from, " to ", to, ": ", error.message()));
    INGOT_RETURN_IF_ERROR(base::SyncDir(run_path_ + "/checkpoints"));
  }
  fs::remove_all(root, error);
  return error ? absl::UnavailableError(absl::StrCat("cannot remove ", root, ": ", error.message())) : absl::OkStatus();
}

}  // namespace ingot::app
