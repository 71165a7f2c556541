// `ingot inspect`: prints a run's recorded trajectories as a list, as one tree, or as JSON.
#include "app/commands/record/inspect.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "app/models/text_parts.h"
#include "app/record/stored_episodes.h"
#include "app/record/stored_run.h"
#include "app/run/process.h"
#include "app/run/run_config.h"
#include "app/terminal/progress.h"
#include "base/log.h"
#include "base/printable.h"
#include "trainer/checkpoints/checkpoint.h"
#include "tree/alternatives.h"
#include "tree/episode_return.h"
#include "tree/episode_time.h"
#include "tree/render.h"
#include "view/evaluation/evaluation.h"
#include "view/runs/journal.h"

namespace ingot::app {
namespace {

struct OpenRun {
  StoredRun stored;
  datapool::Client* pool = nullptr;
  TextParts text;
};

absl::StatusOr<OpenRun> OpenRunDir(const std::string& run_dir) {
  const Underway reading("inspect: reading " + run_dir);
  OpenRun run;
  INGOT_ASSIGN_OR_RETURN(run.stored, OpenStoredRun(run_dir));
  run.pool = run.stored.pool.get();
  INGOT_ASSIGN_OR_RETURN(run.text, run.stored.Text());
  return run;
}

// In display order. Calls outside of episodes are served (`ingot serve --record`).
constexpr std::pair<v1::EpisodePurpose, const char*> kKinds[] = {
    {v1::PURPOSE_TRAIN, "train"}, {v1::PURPOSE_EVAL, "eval"}, {v1::PURPOSE_SERVE, "serve"}};

constexpr int kListed = 20;    // episodes of each purpose in the printed list
constexpr int kCounted = 200;  // episodes of each purpose whose calls are counted; slow in a large pool

// Returns INVALID_ARGUMENT unless `text` is a number or LOW:HIGH, where either side may be empty.
absl::Status ReadRewards(const std::string& text, EpisodeFilter& filter) {
  const size_t colon = text.find(':');
  const std::string low = text.substr(0, colon), high = colon == std::string::npos ? low : text.substr(colon + 1);
  const bool read = (low.empty() || absl::SimpleAtod(low, &filter.min_reward)) &&
                    (high.empty() || absl::SimpleAtod(high, &filter.max_reward)) && low.size() + high.size() > 0;
  if (read) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--reward '", text, "': it must be a number or LOW:HIGH, such as 0.5: for 0.5 and more"));
}

// Returns the training groups used in the step.
absl::StatusOr<std::set<int64_t>> GroupsOf(datapool::Client& pool, int64_t step) {
  view::Journal journal;
  INGOT_RETURN_IF_ERROR(journal.Refresh(pool));
  const std::optional<view::JournalBatch> batch = journal.Batch(step);
  if (batch.has_value()) return std::set<int64_t>(batch->groups.begin(), batch->groups.end());
  return absl::NotFoundError(absl::StrCat("--step ", step, ": the run has made ", journal.batches(), " batches"));
}

absl::StatusOr<EpisodeFilter> FilterOf(const InspectArgs& args, datapool::Client& pool, v1::EpisodePurpose purpose) {
  EpisodeFilter filter{.domain = args.domain, .scaffold = args.scaffold, .groups = {}};
  if (!args.reward.empty()) INGOT_RETURN_IF_ERROR(ReadRewards(args.reward, filter));
  if (!args.step.has_value()) return filter;
  filter.groups.emplace();
  if (purpose == v1::PURPOSE_TRAIN) {
    INGOT_ASSIGN_OR_RETURN(filter.groups, GroupsOf(pool, *args.step));
  } else if (purpose == v1::PURPOSE_EVAL) {
    INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, view::EvaluatedGroups(pool, *args.step));
    filter.groups->insert(groups.begin(), groups.end());
  }
  return filter;
}

// Returns an episode's number of calls and seconds as two columns. Without `count`, does not read the calls.
absl::StatusOr<std::string> Extent(datapool::Client& pool, const v1::Episode& episode, bool count) {
  if (!count) return fmt::format("{:>6} {:>8.2f}", "-", tree::SecondsOf(episode));
  v1::GetEpisodeRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, pool.GetEpisode(request));
  return fmt::format("{:>6} {:>8.2f}", tree.calls_size(), tree::SecondsOf(tree));
}

absl::StatusOr<int> List(const OpenRun& run, const InspectArgs& args) {
  const int limit = args.limit.value_or(kListed);
  std::printf("%-34s %-5s %7s %6s %7s %-9s %6s %8s %8s  %s\n", "episode", "kind", "group", "sample", "attempt", "state",
              "calls", "seconds", "reward", "task");
  int shown = 0;
  for (const auto& [purpose, kind] : kKinds) {
    INGOT_ASSIGN_OR_RETURN(const EpisodeFilter filter, FilterOf(args, *run.pool, purpose));
    INGOT_ASSIGN_OR_RETURN(const EpisodeList list,
                           NewestEpisodes(*run.pool, purpose, static_cast<size_t>(std::max(limit, 0)), filter));
    int listed = 0;
    for (const v1::Episode& episode : list.episodes) {
      INGOT_ASSIGN_OR_RETURN(const std::string extent, Extent(*run.pool, episode, listed++ < kCounted));
      std::printf("%-34s %-5s %7ld %6d %7d %-9s %s %8.3f  %s\n", base::Printable(episode.episode_id()).c_str(), kind,
                  static_cast<long>(episode.ref().group_id()), episode.ref().sample_index(), episode.ref().attempt(),
                  tree::StateName(episode.state()).c_str(), extent.c_str(), tree::ReturnOf(episode),
                  base::Printable(episode.task().task_id()).c_str());
    }
    shown += listed;
    if (list.more) std::printf("... older %s episodes; --limit shows them\n", kind);
  }
  const bool filtered = !args.reward.empty() || !args.domain.empty() || !args.scaffold.empty() || args.step.has_value();
  if (shown == 0) {
    std::printf("%s\n", filtered ? "no stored episode matches"
                                 : "no episodes are stored (datapool.keep_steps sets how long they are kept)");
  }
  return 0;
}

absl::StatusOr<std::string> ToJson(datapool::Client& pool, const std::string& episode, bool lines) {
  v1::GetEpisodeRequest request;
  request.set_episode_id(episode);
  request.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, pool.GetEpisode(request));
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = lines;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(tree, &text, options);
  if (!status.ok()) return absl::InternalError(std::string(status.message()));
  return text;
}

// Prints one line per episode. stdout has only records, and stderr reports which purposes have more.
absl::StatusOr<int> PrintRecords(const OpenRun& run, const InspectArgs& args) {
  const int limit = args.limit.value_or(0);
  std::vector<std::string> ids;
  std::string left_out;
  for (const auto& [purpose, kind] : kKinds) {
    INGOT_ASSIGN_OR_RETURN(const EpisodeFilter filter, FilterOf(args, *run.pool, purpose));
    INGOT_ASSIGN_OR_RETURN(const EpisodeList list,
                           NewestEpisodes(*run.pool, purpose, static_cast<size_t>(std::max(limit, 0)), filter));
    for (const v1::Episode& episode : list.episodes) ids.push_back(episode.episode_id());
    if (list.more) absl::StrAppend(&left_out, left_out.empty() ? "" : ", ", kind);
  }
  // On a terminal, the printed lines themselves show the progress.
  Progress progress("inspect", stderr, base::Clock::Real(), OutputGoesElsewhere() ? 1 : 0);
  int64_t printed = 0;
  for (const std::string& id : ids) {
    progress.Show("episodes", printed++, std::ssize(ids));
    INGOT_ASSIGN_OR_RETURN(const std::string text, ToJson(*run.pool, id, /*lines=*/false));
    std::printf("%s\n", text.c_str());
  }
  if (!left_out.empty()) {
    std::fprintf(stderr, "inspect: --limit %d omits older episodes (%s); use --limit 0 to print all\n", limit,
                 left_out.c_str());
  }
  return 0;
}

absl::StatusOr<int> PrintJournal(const OpenRun& run) {
  Progress progress("inspect", stderr, base::Clock::Real(), OutputGoesElsewhere() ? 1 : 0);
  for (datapool::JournalPages pages(*run.pool); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pages.Next());
    for (const v1::JournalRecord& record : page.records()) {
      progress.Show("records", record.index(), page.end_index());
      std::string text;
      const auto status = google::protobuf::util::MessageToJsonString(record, &text);
      if (!status.ok()) return absl::InternalError(std::string(status.message()));
      std::printf("%s\n", text.c_str());
    }
  }
  return 0;
}

absl::StatusOr<int> InspectOrError(const InspectArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const OpenRun run, OpenRunDir(args.run_dir));
  if (args.journal) return PrintJournal(run);
  if (args.episode.empty()) {
    if (args.alternatives) {
      return absl::InvalidArgumentError("--alternatives needs an episode: its id or GROUP/SAMPLE, as in the list");
    }
    return args.json ? PrintRecords(run, args) : List(run, args);
  }
  v1::GetEpisodeRequest request;
  INGOT_ASSIGN_OR_RETURN(*request.mutable_episode_id(), ResolveEpisode(*run.pool, args.episode));
  if (args.json) {
    INGOT_ASSIGN_OR_RETURN(const std::string text, ToJson(*run.pool, request.episode_id(), /*lines=*/true));
    std::printf("%s", text.c_str());
    return 0;
  }
  request.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, run.pool->GetEpisode(request));
  const auto decode = [&run](std::span<const int32_t> ids) { return run.text.tokenizer->Decode(ids, false); };
  INGOT_ASSIGN_OR_RETURN(const std::string text,
                         args.alternatives ? tree::RenderAlternatives(tree, decode) : tree::RenderTree(tree, decode));
  std::printf("%s", text.c_str());
  return 0;
}

}  // namespace

int Inspect(const InspectArgs& args) {
  const absl::StatusOr<int> code = InspectOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
