#include "view/json/window_json.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tree/episode_return.h"
#include "tree/render.h"
#include "view/runs/waits.h"
#include "view/safe_text.h"

namespace ingot::view {
namespace {

using base::json::array;
using base::json::object;

constexpr size_t kRecent = 64;  // number of finished groups whose median age defines a straggler

double AgeSeconds(int64_t from_ns, int64_t to_ns) {
  return from_ns == 0 ? 0 : static_cast<double>(std::max<int64_t>(0, to_ns - from_ns)) * 1e-9;
}

// Returns the median number of seconds from admission to reward of recent groups, or 0 if none has finished.
double MedianAge(const Journal& journal) {
  std::vector<double> ages;
  for (const GroupState state : {GroupState::kTrained, GroupState::kDropped}) {
    for (const int64_t id : journal.InState(state, kRecent)) {
      const std::optional<JournalGroup> group = journal.Group(id);
      const int64_t end = group->rewarded_ns != 0 ? group->rewarded_ns : group->ended_ns;
      ages.push_back(AgeSeconds(group->admitted_ns, end));
    }
  }
  if (ages.empty()) return 0;
  const auto middle = ages.begin() + std::ssize(ages) / 2;
  std::nth_element(ages.begin(), middle, ages.end());
  return *middle;
}

struct Samples {
  array list;
  int begun = 0, running = 0, finished = 0, failed_attempts = 0;
  double oldest_running_s = 0;
  int oldest_sample = 0;
  std::string oldest_id;   // among running episodes
  std::string last_cause;  // cause of a failed attempt
};

object SampleJson(const v1::Episode& episode, int64_t now_ns) {
  const bool open = episode.state() == v1::EPISODE_OPEN;
  return {{"sample", episode.ref().sample_index()},
          {"attempt", episode.ref().attempt()},
          {"id", SafeText(episode.episode_id())},
          {"state", tree::StateName(episode.state())},
          {"age_s", AgeSeconds(episode.opened_unix_ns(), open ? now_ns : episode.ended_unix_ns())},
          {"reward", tree::ReturnOf(episode)},
          {"cause", SafeText(episode.cause())}};
}

// Returns the samples by group, based on each sample's newest attempt.
absl::StatusOr<std::map<int64_t, Samples>> ReadSamples(datapool::Client& pool, int64_t first, int64_t last,
                                                       int64_t now_ns) {
  std::map<int64_t, std::map<int, v1::Episode>> newest;
  std::map<int64_t, Samples> samples;
  for (datapool::EpisodePages pages(pool, v1::PURPOSE_TRAIN, first, last); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      Samples& group = samples[episode.ref().group_id()];
      if (episode.state() == v1::EPISODE_FAILED || episode.state() == v1::EPISODE_INFRASTRUCTURE_FAILED) {
        ++group.failed_attempts;
        group.last_cause = episode.cause();
      }
      newest[episode.ref().group_id()][episode.ref().sample_index()] = episode;
    }
  }
  for (const auto& [id, episodes] : newest) {
    Samples& group = samples[id];
    for (const auto& [index, episode] : episodes) {
      group.begun += episode.state() == v1::EPISODE_FORKED ? 0 : 1;  // its leaves are the samples
      group.finished += episode.state() == v1::EPISODE_FINISHED ? 1 : 0;
      if (episode.state() == v1::EPISODE_OPEN) {
        ++group.running;
        const double age = AgeSeconds(episode.opened_unix_ns(), now_ns);
        if (group.oldest_id.empty() || age > group.oldest_running_s) {
          group.oldest_running_s = age;
          group.oldest_id = episode.episode_id();
          group.oldest_sample = index;
        }
      }
      group.list.push_back(SampleJson(episode, now_ns));
    }
  }
  return samples;
}

// Returns why an open group has no reward yet.
std::string CauseOf(const JournalGroup& group, const Samples& samples) {
  if (group.state != GroupState::kOpen) return "";
  std::string cause;
  if (samples.finished >= group.group_size) {
    cause = "waiting for the reward stage";
  } else if (samples.running > 0) {
    cause = absl::StrCat(samples.running, " of ", group.group_size, " samples are running, the oldest for ",
                         static_cast<int64_t>(samples.oldest_running_s), " s");
  } else {
    cause = absl::StrCat(group.group_size - samples.begun, " samples are waiting for an agent");
  }
  if (samples.failed_attempts > 0) {
    absl::StrAppend(&cause, "; ", samples.failed_attempts, " attempts failed");
    if (!samples.last_cause.empty()) absl::StrAppend(&cause, ", the last by ", SafeText(samples.last_cause));
  }
  return cause;
}

// Describes what a straggler's oldest running sample is doing. Returns "" if none is running or its tree is gone.
std::string NamedCause(const Samples& samples, datapool::Client& pool, int64_t now_ns, bool engines_rest) {
  if (samples.oldest_id.empty()) return "";
  v1::GetEpisodeRequest request;
  request.set_episode_id(samples.oldest_id);
  request.set_with_calls(true);
  const absl::StatusOr<v1::EpisodeTree> tree = pool.GetEpisode(request);
  if (!tree.ok()) return "";
  return absl::StrCat("; sample ", samples.oldest_sample, ", ", tree->calls_size(),
                      " calls: ", DescribeTimeSpent(*tree, now_ns, engines_rest));
}

}  // namespace

absl::StatusOr<object> WindowJson(const RunFacts& facts, const Journal& journal, datapool::Client& pool, int64_t now_ns,
                                  bool engines_rest) {
  std::vector<JournalGroup> groups = journal.FromHead();
  const int64_t head = groups.empty() ? journal.next_group() : groups.front().group_id;
  if (groups.size() > kMaxGroups) groups.resize(kMaxGroups);
  std::map<int64_t, Samples> samples;
  if (!groups.empty()) {
    INGOT_ASSIGN_OR_RETURN(samples, ReadSamples(pool, head, groups.back().group_id, now_ns));
  }
  const double median = MedianAge(journal);
  size_t named = 0;
  array list;
  for (const JournalGroup& group : groups) {
    Samples& own = samples[group.group_id];
    const bool ended = group.state != GroupState::kOpen && group.state != GroupState::kFinished;
    const int64_t until = group.rewarded_ns != 0 ? group.rewarded_ns : ended ? group.ended_ns : now_ns;
    const double age = AgeSeconds(group.admitted_ns, until);
    const bool straggles = group.state == GroupState::kOpen && median > 0 && age > 2 * median;
    std::string cause = CauseOf(group, own);
    if (straggles && named < kMaxNamed && !own.oldest_id.empty()) {
      ++named;
      cause += NamedCause(own, pool, now_ns, engines_rest);
    }
    list.push_back(object{{"group", group.group_id},
                          {"task", SafeText(group.task_id)},
                          {"domain", SafeText(group.domain)},
                          {"state", NameOf(group.state)},
                          {"age_s", age},
                          {"waits_s", group.state == GroupState::kFinished ? AgeSeconds(group.rewarded_ns, now_ns) : 0},
                          {"in_window", group.group_id < head + facts.window},
                          {"version", group.admitted_version},
                          {"size", group.group_size},
                          {"finished", own.finished},
                          {"running", own.running},
                          {"straggler", straggles},
                          {"cause", std::move(cause)},
                          {"samples", std::move(own.list)}});
  }
  array unreleased;
  for (const int64_t id : journal.Unreleased()) unreleased.push_back(id);
  return object{{"head", head},
                {"next_group", journal.next_group()},
                {"window", facts.window},
                {"budget", facts.budget},
                {"live_version", journal.live_version()},
                {"median_age_s", median},
                {"dropped", journal.Count(GroupState::kDropped)},
                {"failed", journal.Count(GroupState::kFailed)},
                {"trained", journal.Count(GroupState::kTrained)},
                {"unreleased", std::move(unreleased)},
                {"groups", std::move(list)}};
}

}  // namespace ingot::view
