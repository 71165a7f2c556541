#include "app/learning/rollback.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/json.h"
#include "trainer/checkpoints/checkpoint.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

std::string PathOf(const Rounds& rounds) { return absl::StrCat(rounds.run_path(), "/rounds/rollback.json"); }

std::string CheckpointOf(const Rounds& rounds, int64_t version) {
  return absl::StrCat(rounds.run_path(), "/checkpoints/", trainer::CheckpointName(version));
}

// Returns the version whose weights the round deployed first.
int64_t WeightsOf(const Round& round) { return round.restores >= 0 ? round.restores : round.version; }

absl::StatusOr<int64_t> VersionBefore(const Rounds& rounds, const std::vector<int64_t>& kept) {
  const int64_t current = WeightsOf(*rounds.deployed());
  const auto after = std::lower_bound(kept.begin(), kept.end(), current);
  if (after != kept.begin()) return *std::prev(after);
  return absl::FailedPreconditionError(
      absl::StrCat("no version before ", current, " is kept in ", rounds.run_path(), "/checkpoints"));
}

absl::Status CheckTarget(const Rounds& rounds, const std::vector<int64_t>& kept, int64_t to) {
  if (!std::binary_search(kept.begin(), kept.end(), to)) {
    return absl::NotFoundError(absl::StrCat("version ", to, " is not kept in ", rounds.run_path(),
                                            "/checkpoints, which has the deployed versions ", absl::StrJoin(kept, ", "),
                                            ": name one of them with --to"));
  }
  if (to == rounds.deployed()->version) {
    return absl::FailedPreconditionError(absl::StrCat("version ", to, " is the deployed version"));
  }
  return trainer::VerifyCheckpoint(CheckpointOf(rounds, to)).status();
}

}  // namespace

std::vector<int64_t> KeptVersions(const Rounds& rounds) {
  std::vector<int64_t> versions;
  std::error_code none;
  for (const Round& round : rounds.all()) {
    const bool kept = round.outcome == Outcome::kDeployed && fs::exists(CheckpointOf(rounds, round.version), none);
    if (kept) versions.push_back(round.version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::StatusOr<Rollback> RequestRollback(const Rounds& rounds, std::optional<int64_t> to, int64_t now_unix_ns) {
  if (rounds.deployed() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(rounds.run_path(), " has not deployed a version yet"));
  }
  const std::vector<int64_t> kept = KeptVersions(rounds);
  Rollback rollback{.to = to.value_or(0), .requested_unix_ns = now_unix_ns};
  if (!to.has_value()) {
    INGOT_ASSIGN_OR_RETURN(rollback.to, VersionBefore(rounds, kept));
  }
  INGOT_RETURN_IF_ERROR(CheckTarget(rounds, kept, rollback.to));
  const base::json::object request{{"to", rollback.to}, {"requested_unix_ns", rollback.requested_unix_ns}};
  INGOT_RETURN_IF_ERROR(base::ReplaceFile(PathOf(rounds), base::PrintJson(request) + "\n"));
  return rollback;
}

absl::StatusOr<std::optional<Rollback>> PendingRollback(const Rounds& rounds) {
  const absl::StatusOr<std::string> text = base::ReadFile(PathOf(rounds));
  if (absl::IsNotFound(text.status())) return std::nullopt;
  INGOT_RETURN_IF_ERROR(text.status());
  const absl::StatusOr<base::json::value> parsed = base::ParseJson(*text);
  const base::json::value* const to = parsed.ok() ? base::Find(*parsed, "to") : nullptr;
  const base::json::value* const when = parsed.ok() ? base::Find(*parsed, "requested_unix_ns") : nullptr;
  if (to == nullptr || when == nullptr || !to->is_int64() || !when->is_int64() || to->get_int64() < 0) {
    return absl::DataLossError(absl::StrCat(PathOf(rounds), " is damaged: ask for the rollback again"));
  }
  return Rollback{.to = to->get_int64(), .requested_unix_ns = when->get_int64()};
}

absl::Status DropRollback(const Rounds& rounds) {
  std::error_code error;
  fs::remove(PathOf(rounds), error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot remove ", PathOf(rounds), ": ", error.message()));
  return base::SyncDir(rounds.run_path() + "/rounds");
}

}  // namespace ingot::app
