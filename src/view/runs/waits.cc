#include "view/runs/waits.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace ingot::view {
namespace {

constexpr char kStart[] = "episode start", kQueue[] = "engine: queue and prompt", kDecode[] = "engine: decoding",
               kAgent[] = "agent and its tools", kGrading[] = "grading", kScheduler[] = "scheduler",
               kReading[] = "reading trees", kUnrecorded[] = "an agent at work, or an unfinished call",
               kDeleted[] = "rollout (its trees are deleted)";

double Overlap(int64_t from, int64_t to, int64_t begin, int64_t end) {
  return static_cast<double>(std::max<int64_t>(0, std::min(to, end) - std::max(from, begin))) * 1e-9;
}

// Returns the batch's most recently rewarded group, or nullopt if none of its groups are in the journal.
std::optional<JournalGroup> LastRewarded(const JournalBatch& batch, const Journal& journal) {
  std::optional<JournalGroup> last;
  for (const int64_t id : batch.groups) {
    const std::optional<JournalGroup> group = journal.Group(id);
    if (group && (!last || group->rewarded_ns > last->rewarded_ns)) last = group;
  }
  return last;
}

// Returns the group's last episode to end, with its calls.
absl::StatusOr<v1::EpisodeTree> LastEnded(datapool::Client& pool, int64_t group) {
  std::string id;
  int64_t ended = 0;
  for (datapool::EpisodePages pages(pool, v1::PURPOSE_TRAIN, group, group); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      if (episode.ended_unix_ns() <= ended || episode.state() != v1::EPISODE_FINISHED) continue;
      ended = episode.ended_unix_ns();
      id = episode.episode_id();
    }
  }
  if (id.empty()) return absl::NotFoundError("no finished episode is stored");
  v1::GetEpisodeRequest request;
  request.set_episode_id(id);
  request.set_with_calls(true);
  return pool.GetEpisode(request);
}

}  // namespace

std::map<std::string, double> CausesWithin(const v1::EpisodeTree& episode, int64_t from, int64_t to) {
  std::map<std::string, double> causes;
  const double start = Overlap(from, to, from, episode.episode().opened_unix_ns());
  if (start > 0) causes[kStart] = start;
  // Calls in parallel branches overlap. Each instant counts once, with decoding taking precedence over queueing.
  std::vector<std::array<int64_t, 2>> queued, decoded;
  for (const v1::Call& call : episode.calls()) {
    const v1::CallTimes& times = call.times();
    const int64_t first = times.first_token_unix_ns() == 0 ? times.end_unix_ns() : times.first_token_unix_ns();
    queued.push_back({times.queued_unix_ns(), first});
    decoded.push_back({first, times.end_unix_ns()});
  }
  const auto covered = [&](std::vector<std::array<int64_t, 2>> spans) {
    std::sort(spans.begin(), spans.end());
    double seconds = 0;
    int64_t reached = std::max(from, episode.episode().opened_unix_ns());
    for (const auto& [begin, end] : spans) {
      seconds += Overlap(std::max(from, reached), to, begin, end);
      reached = std::max(reached, end);
    }
    return seconds;
  };
  const double decode = covered(decoded);
  decoded.insert(decoded.end(), queued.begin(), queued.end());
  const double engine = covered(decoded);
  if (decode > 0) causes[kDecode] = decode;
  if (engine > decode) causes[kQueue] = engine - decode;
  const double rest = static_cast<double>(to - from) * 1e-9 - start - engine;
  if (rest > 0) causes[kAgent] = rest;
  return causes;
}

std::string DescribeTimeSpent(const v1::EpisodeTree& episode, int64_t now_ns, bool engines_rest) {
  const int64_t opened = episode.episode().opened_unix_ns();
  int64_t ended = opened;
  for (const v1::Call& call : episode.calls()) ended = std::max(ended, call.times().end_unix_ns());
  std::map<std::string, double> causes = CausesWithin(episode, opened, ended);
  causes[engines_rest ? kAgent : kUnrecorded] += Overlap(ended, now_ns, ended, now_ns);
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [name, seconds] : causes) {
    if (seconds >= 0.05) parts.emplace_back(seconds, name);
  }
  std::sort(parts.rbegin(), parts.rend());
  std::string text;
  for (const auto& [seconds, name] : parts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ",
                    fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0));
  }
  return text;
}

std::vector<Part> Waits::CausesOf(const Row& row, const Journal& journal, datapool::Client& pool) {
  {
    base::MutexLock lock(mu_);
    if (const auto found = found_.find(row.step); found != found_.end()) return found->second;
  }
  const double wait = row.Get("perf/wait_seconds");
  const std::optional<JournalBatch> batch = journal.Batch(row.step);
  if (!batch) return {{kScheduler, wait}};
  const double after = row.Get("perf/step_seconds") - row.Get("perf/checkpoint_seconds") - wait;
  const auto received = static_cast<int64_t>((row.time - after) * 1e9);
  const int64_t from = received - static_cast<int64_t>(wait * 1e9);
  std::map<std::string, double> causes;
  int64_t done = std::clamp(batch->unix_ns, from, received);  // when the batch was created
  causes[kReading] = Overlap(from, received, done, received);
  if (const std::optional<JournalGroup> last = LastRewarded(*batch, journal)) {
    const int64_t rewarded = std::clamp(last->rewarded_ns, from, done);
    causes[kScheduler] = Overlap(from, received, rewarded, done);
    done = rewarded;
    const absl::StatusOr<v1::EpisodeTree> episode =
        done > from ? LastEnded(pool, last->group_id) : absl::NotFoundError("there were no waits");
    if (episode.ok()) {
      const int64_t ended = std::clamp(episode->episode().ended_unix_ns(), from, done);
      causes[kGrading] = Overlap(from, received, ended, done);
      for (const auto& [name, seconds] : CausesWithin(*episode, from, ended)) causes[name] += seconds;
    } else if (done > from) {
      causes[kDeleted] = Overlap(from, received, from, done);
    }
  } else {
    causes[kScheduler] = Overlap(from, received, from, done);
  }
  std::vector<Part> parts;
  for (const auto& [name, seconds] : causes) {
    if (seconds > 0) parts.push_back({name, seconds});
  }
  base::MutexLock lock(mu_);
  found_.emplace(row.step, parts);
  return parts;
}

void Waits::Forget() {
  base::MutexLock lock(mu_);
  found_.clear();
}

}  // namespace ingot::view
