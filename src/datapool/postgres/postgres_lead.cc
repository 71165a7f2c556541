#include "datapool/postgres/postgres_lead.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "base/log.h"

namespace ingot::datapool {
namespace {

constexpr char kFile[] = "timeline-";  // prefix of a timeline file: timeline-SYSTEM-NUMBER
constexpr size_t kFileSize = sizeof(kFile) - 1;

int64_t HighestOf(const std::vector<PostgresAnswer>& answers, const PostgresTimelines& timelines,
                  const std::string& system) {
  int64_t highest = timelines.Highest(system);
  for (const PostgresAnswer& answer : answers) {
    if (answer.identity.system == system) highest = std::max(highest, answer.identity.timeline);
  }
  return highest;
}

std::string ReportOf(const std::vector<PostgresAnswer>& answers) {
  std::string reported;
  for (const PostgresAnswer& answer : answers) {
    absl::StrAppend(&reported, reported.empty() ? "" : ", ", answer.host, answer.standby ? " is a standby" : " writes",
                    " on timeline ", answer.identity.timeline);
  }
  return reported;
}

}  // namespace

void PostgresLead::End(const std::string& why) {
  base::MutexLock lock(mu_);
  if (over_) return;
  why_ = why;
  over_ = true;
}

std::string PostgresLead::why() const {
  base::MutexLock lock(mu_);
  return why_;
}

void PostgresTimelines::Load() {
  if (folder_.empty()) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    const size_t number = name.rfind('-');
    int64_t timeline = 0;
    if (!name.starts_with(kFile) || number < kFileSize || !absl::SimpleAtoi(name.substr(number + 1), &timeline))
      continue;
    Raise(name.substr(kFileSize, number - kFileSize), {timeline, base::ReadFile(entry.path().string()).value_or("")});
  }
}

int64_t PostgresTimelines::Highest(const std::string& system) const {
  base::MutexLock lock(mu_);
  const auto found = highest_.find(system);
  return found == highest_.end() ? 0 : found->second.timeline;
}

void PostgresTimelines::Saw(const PostgresAnswer& answer) {
  const auto& [system, timeline, started] = answer.identity;
  if (!Raise(system, {timeline, answer.host}) || folder_.empty() || read_only_) return;
  absl::Status written = base::WriteFileDurably(FileOf(system, timeline), answer.host);
  if (written.ok()) written = base::SyncDir(folder_);
  if (!written.ok())
    INGOT_LOG(warn, "timeline {} of {} could not be stored and will be forgotten by a restart: {}", timeline,
              answer.host, written.ToString());
}

std::string PostgresTimelines::Remedy(const std::string& system) const {
  base::MutexLock lock(mu_);
  const auto found = highest_.find(system);
  if (found == highest_.end()) return ". Stop it, or make it a standby";
  const auto& [timeline, host] = found->second;
  return absl::StrCat("; timeline ", timeline, " was seen at ", host, ". Stop it, or make it a standby",
                      folder_.empty() ? ""
                                      : absl::StrCat(". If it is the right server, delete ", FileOf(system, timeline),
                                                     " and start again"));
}

std::string PostgresTimelines::FileOf(const std::string& system, int64_t timeline) const {
  return absl::StrCat(folder_, "/", kFile, system, "-", timeline);
}

bool PostgresTimelines::Raise(const std::string& system, SeenServer seen) {
  base::MutexLock lock(mu_);
  SeenServer& highest = highest_[system];
  if (highest.timeline >= seen.timeline) return false;
  highest = std::move(seen);
  return true;
}

absl::StatusOr<size_t> ChooseLeader(const std::vector<PostgresAnswer>& answers, const PostgresTimelines& timelines,
                                    const PostgresIdentity* last) {
  std::vector<size_t> leaders;
  std::string unfenced;
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto& [host, standby, identity] = answers[i];
    if (standby) continue;
    if (identity.timeline >= HighestOf(answers, timelines, identity.system)) {
      leaders.push_back(i);
    } else {
      absl::StrAppend(&unfenced, unfenced.empty() ? "" : " ", host, " writes on the old timeline ", identity.timeline,
                      ": it is a primary that was replaced and is not fenced", timelines.Remedy(identity.system), ".");
    }
  }
  if (leaders.empty() && !unfenced.empty()) {
    return absl::UnavailableError(absl::StrCat(unfenced, " All servers: ", ReportOf(answers)));
  }
  if (leaders.empty()) return absl::UnavailableError(absl::StrCat("no server accepts writes: ", ReportOf(answers)));
  const PostgresAnswer& first = answers[leaders[0]];
  for (const size_t i : leaders) {
    if (last != nullptr && answers[i].identity == *last) return i;
  }
  for (const size_t i : leaders) {
    const auto& [host, standby, identity] = answers[i];
    if (identity.system != first.identity.system) {
      return absl::FailedPreconditionError(absl::StrCat(
          first.host, " and ", host, " write, but belong to different clusters (system identifiers ",
          first.identity.system, " and ", identity.system, "): list only one cluster's servers in the url"));
    }
    if (identity.started != first.identity.started) {
      return absl::UnavailableError(
          absl::StrCat(first.host, " and ", host, " both write on timeline ", identity.timeline, ": stop one of them"));
    }
  }
  return leaders[0];
}

}  // namespace ingot::datapool
