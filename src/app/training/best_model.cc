#include "app/training/best_model.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/written_files.h"
#include "trainer/checkpoints/files.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;

constexpr char kRecord[] = "best.json";
constexpr std::string_view kCandidate = "candidate-";

// Returns the version in "candidate-N", or nullopt for any other name.
std::optional<int64_t> VersionIn(const std::string& name) {
  if (!name.starts_with(kCandidate)) return std::nullopt;
  const char* const begin = name.data() + kCandidate.size();
  const char* const end = name.data() + name.size();
  int64_t version = -1;
  const auto [rest, fault] = std::from_chars(begin, end, version);
  if (fault != std::errc() || rest != end || version < 0) return std::nullopt;
  return version;
}

// Removes the record first, so that an incomplete folder never looks complete.
void Remove(const std::string& folder) {
  std::error_code ignored;
  fs::remove(folder + "/" + kRecord, ignored);
  fs::remove_all(folder, ignored);
}

absl::Status WriteRecord(const std::string& folder, const json::object& record) {
  return base::ReplaceFile(folder + "/" + kRecord, base::PrintJson(record) + "\n");
}

// Returns nullopt if the folder has no record or its record has no version.
absl::StatusOr<std::optional<json::object>> ReadRecord(const std::string& folder) {
  const std::string path = folder + "/" + kRecord;
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  INGOT_RETURN_IF_ERROR(text.status());
  absl::StatusOr<json::value> parsed = base::ParseJson(*text);
  const json::value* const version = parsed.ok() ? base::Find(*parsed, "version") : nullptr;
  if (version == nullptr || !version->is_int64()) {
    INGOT_LOG(warn, "{} is damaged: its folder does not count", path);
    return std::nullopt;
  }
  return std::optional<json::object>(std::move(parsed->get_object()));
}

int64_t NumberIn(const json::object& record, std::string_view key) {
  const json::value* const value = record.if_contains(json::string_view(key.data(), key.size()));
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

}  // namespace

std::string BestModel::Candidate(int64_t version) const {
  return fmt::format("{}/{}{:08}", root_, kCandidate, version);
}

absl::Status BestModel::Save(int64_t version, const std::string& weights_checksum, const WriteModel& write) const {
  if (!on_) return absl::OkStatus();
  const std::string folder = Candidate(version);
  Remove(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  INGOT_RETURN_IF_ERROR(write(folder));
  INGOT_RETURN_IF_ERROR(trainer::WriteTexts(folder, files_));
  INGOT_RETURN_IF_ERROR(base::WriteChecksums(folder));  // excludes best.json, which will be changed again
  INGOT_RETURN_IF_ERROR(
      WriteRecord(folder, json::object{{"version", version}, {"weights_checksum", weights_checksum}}));
  return base::SyncDir(root_);
}

absl::StatusOr<bool> BestModel::Offer(const VersionScore& score) const {
  if (!on_) return false;
  const std::string candidate = Candidate(score.version);
  INGOT_ASSIGN_OR_RETURN(const std::optional<VersionScore> before, Best());
  const bool better = score.failed < score.episodes && std::isfinite(score.reward) &&
                      (!before.has_value() || score.reward > before->reward);
  if (!better) {
    Remove(candidate);
    return false;
  }
  INGOT_ASSIGN_OR_RETURN(std::optional<json::object> record, ReadRecord(candidate));
  // After a crash, the candidate's folder may contain the model that this version replaced.
  if (!record.has_value() || NumberIn(*record, "version") != score.version) {
    INGOT_LOG(
        warn,
        "version {} has the best held-out reward so far, {:.3f}, but cannot be kept: {} lacks its weights, because "
        "the run began to evaluate it without eval.keep_best",
        score.version, score.reward, candidate);
    Remove(candidate);
    return false;
  }
  (*record)["reward_mean"] = score.reward;
  (*record)["episodes"] = score.episodes;
  (*record)["failed"] = score.failed;
  INGOT_RETURN_IF_ERROR(WriteRecord(candidate, *record));
  const std::string aside = root_ + "/.old-best";
  INGOT_RETURN_IF_ERROR(base::ReplaceFolder(candidate, folder(), aside));
  Remove(candidate);
  Remove(aside);
  return true;
}

void BestModel::DropOthers(const std::set<int64_t>& versions) const {
  if (!on_) return;
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator entry(root_, error), end; !error && entry != end; entry.increment(error)) {
    const std::optional<int64_t> version = VersionIn(entry->path().filename().string());
    if (version.has_value() && !versions.contains(*version)) others.push_back(entry->path().string());
  }
  for (const std::string& folder : others) Remove(folder);
}

absl::StatusOr<std::optional<VersionScore>> BestModel::Best() const {
  INGOT_ASSIGN_OR_RETURN(const std::optional<json::object> record, ReadRecord(folder()));
  if (!record.has_value()) return std::nullopt;
  const json::value* const reward = record->if_contains("reward_mean");
  if (reward == nullptr || !reward->is_number()) return std::nullopt;
  return std::optional<VersionScore>(VersionScore{.version = NumberIn(*record, "version"),
                                                  .reward = reward->to_number<double>(),
                                                  .episodes = NumberIn(*record, "episodes"),
                                                  .failed = NumberIn(*record, "failed")});
}

}  // namespace ingot::app
