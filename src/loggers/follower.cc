#include "loggers/follower.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "view/evaluation/evaluation.h"

namespace ingot::loggers {
namespace {

constexpr int kNice = 10;
constexpr size_t kRowsAtATime = 50;
constexpr int kGroupsAtATime = 32;

}  // namespace

absl::StatusOr<Place> ReadPlace(const std::string& text) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value parsed, base::ParseJson(text));
  const base::json::value* time = base::Find(parsed, "row_time");
  const base::json::value* group = base::Find(parsed, "next_group");
  const base::json::value* ahead = base::Find(parsed, "ahead");
  const base::json::value* state = base::Find(parsed, "state");
  if (time == nullptr || !time->is_number() || group == nullptr || !group->is_int64() || ahead == nullptr ||
      !ahead->is_array() || state == nullptr || !state->is_string()) {
    return absl::InvalidArgumentError("not a logger's position");
  }
  Place place{time->to_number<double>(), group->get_int64(), {}, std::string(state->get_string())};
  for (const base::json::value& id : ahead->get_array()) {
    if (id.is_int64()) place.ahead.push_back(id.get_int64());
  }
  return place;
}

std::string PrintPlace(const Place& place) {
  base::json::array ahead;
  for (const int64_t id : place.ahead) ahead.push_back(id);
  return base::PrintJson(base::json::object{{"row_time", place.row_time},
                                            {"next_group", place.next_group},
                                            {"ahead", std::move(ahead)},
                                            {"state", place.state}});
}

Follower::Follower(FollowerOptions options, std::vector<std::unique_ptr<Logger>> loggers, datapool::Client* pool)
    : options_(std::move(options)), pool_(pool), rows_(options_.record) {
  for (std::unique_ptr<Logger>& logger : loggers) {
    FollowedLogger followed{std::move(logger), {}, {}};
    const absl::StatusOr<std::string> text =
        base::ReadFile(absl::StrCat(options_.folder, "/", followed.logger->name(), ".json"));
    if (text.ok()) {
      if (absl::StatusOr<Place> place = ReadPlace(*text); place.ok()) followed.place = *std::move(place);
    }
    followed_.push_back(std::move(followed));
  }
}

Follower::~Follower() { End(false); }

void Follower::Start() {
  timer_ = thread_.PostEvery(options_.period, [this] {
    thread_local const int lowered = setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
    static_cast<void>(lowered);
    Poll();
  });
}

void Follower::Poll() {
  base::MutexLock lock(mu_);
  for (FollowedLogger& followed : followed_) {
    const absl::Status sent = Send(followed);
    if (sent.ok()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (now - followed.warned < options_.warn_every) continue;
    followed.warned = now;
    INGOT_LOG(warn, "{}: {}; the missing data will be sent later", followed.logger->name(),
              std::string(sent.message()));
  }
}

absl::Status Follower::Send(FollowedLogger& followed) {
  INGOT_RETURN_IF_ERROR(rows_.Refresh());
  while (true) {
    const std::vector<view::Row> rows = rows_.After(followed.place.row_time, kRowsAtATime);
    if (rows.empty()) break;
    INGOT_RETURN_IF_ERROR(followed.logger->Rows(rows));
    INGOT_RETURN_IF_ERROR(SendEvaluations(*followed.logger, rows));
    followed.place.row_time = rows.back().time;
    KeepPosition(followed);
  }
  return followed.logger->wants_groups() && pool_ != nullptr ? SendGroups(followed) : absl::OkStatus();
}

absl::Status Follower::SendEvaluations(Logger& logger, std::span<const view::Row> rows) {
  if (!logger.wants_evaluations() || pool_ == nullptr) return absl::OkStatus();
  for (const view::Row& row : rows) {
    if (!row.Has("eval/reward_mean")) continue;
    const auto version = static_cast<int64_t>(row.Get("eval/version", static_cast<double>(row.step)));
    INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, view::EvaluatedGroups(*pool_, version));
    for (const int64_t id : groups) {
      view::JournalGroup unjournalled;
      unjournalled.group_id = id;
      v1::GetGroupRequest request;
      request.set_group_id(id);
      request.set_purpose(v1::PURPOSE_EVAL);
      const absl::StatusOr<v1::Group> trees = pool_->GetGroup(request);
      if (absl::IsNotFound(trees.status())) continue;  // deleted in the meantime
      INGOT_RETURN_IF_ERROR(trees.status());
      INGOT_RETURN_IF_ERROR(logger.Group(*trees, unjournalled));
    }
    INGOT_RETURN_IF_ERROR(logger.Evaluated(row));
  }
  return absl::OkStatus();
}

absl::Status Follower::SendGroups(FollowedLogger& followed) {
  INGOT_RETURN_IF_ERROR(journal_.Refresh(*pool_));
  Place& place = followed.place;
  const std::vector<int64_t> ahead = std::exchange(place.ahead, {});
  bool gap = false;
  int sent = 0;
  int64_t id = place.next_group;
  absl::Status status;
  for (; id < journal_.next_group() && sent < kGroupsAtATime && status.ok(); ++id) {
    const bool known = std::find(ahead.begin(), ahead.end(), id) != ahead.end();
    const std::optional<view::JournalGroup> group = journal_.Group(id);
    const bool ended = group && group->ended_ns != 0;
    if (ended && !known) {
      v1::GetGroupRequest request;
      request.set_group_id(id);
      const absl::StatusOr<v1::Group> trees = pool_->GetGroup(request);
      if (trees.ok()) status = followed.logger->Group(*trees, *group);
      if (!trees.ok() && !absl::IsNotFound(trees.status())) status = trees.status();
      ++sent;
    }
    if (!status.ok()) break;
    if (!ended && group) gap = true;
    if (!gap) place.next_group = id + 1;
    if (gap && (ended || known)) place.ahead.push_back(id);
  }
  for (const int64_t later : ahead) {
    if (later >= id) place.ahead.push_back(later);
  }
  KeepPosition(followed);
  return status;
}

void Follower::KeepPosition(const FollowedLogger& followed) {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  Place place = followed.place;
  place.state = followed.logger->State();
  const std::string path = absl::StrCat(options_.folder, "/", followed.logger->name(), ".json");
  const absl::Status written = base::ReplaceFile(path, PrintPlace(place));
  if (!written.ok()) INGOT_LOG(warn, "{}", std::string(written.message()));
}

void Follower::End(bool ok) {
  timer_.Cancel();
  const auto end = std::chrono::steady_clock::now() + options_.last_look;
  base::MutexLock lock(mu_);
  if (std::exchange(ended_, true)) return;
  for (FollowedLogger& followed : followed_) {
    absl::Status sent;
    Place before;
    do {  // each Send handles a limited number of groups
      before = followed.place;
      sent = Send(followed);
    } while (std::chrono::steady_clock::now() < end &&
             (absl::IsDeadlineExceeded(sent) ||
              (sent.ok() && (followed.place.next_group != before.next_group || followed.place.ahead != before.ahead))));
    if (sent.ok()) sent = followed.logger->End(ok);
    if (!sent.ok()) {
      INGOT_LOG(warn, "{}: {}; the missing data will be sent when the run starts again", followed.logger->name(),
                std::string(sent.message()));
    }
  }
}

}  // namespace ingot::loggers
