// `ingot inspect`: prints the trajectories that a run recorded, as a list, as one tree, or as JSON.
#include "app/commands/record/inspect.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "app/models/model_setup.h"
#include "app/record/stored_episodes.h"
#include "app/record/stored_run.h"
#include "app/run/process.h"
#include "app/run/run_config.h"
#include "app/terminal/progress.h"
#include "base/log.h"
#include "base/printable.h"
#include "trainer/checkpoints/checkpoint.h"
#include "tree/episode_return.h"
#include "tree/episode_time.h"
#include "tree/render.h"

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
  INGOT_ASSIGN_OR_RETURN(run.text, TextPartsOf(run.stored.config().model));
  return run;
}

// In the order in which they are shown. Calls outside an episode are served (`ingot serve --record`).
constexpr std::pair<v1::EpisodePurpose, const char*> kKinds[] = {
    {v1::PURPOSE_TRAIN, "train"}, {v1::PURPOSE_EVAL, "eval"}, {v1::PURPOSE_SERVE, "serve"}};

constexpr int kListed = 20;  // of each kind, in the printed list

absl::StatusOr<int> List(const OpenRun& run, int limit) {
  std::printf("%-34s %-5s %7s %6s %7s %-9s %8s %8s  %s\n", "episode", "kind", "group", "sample", "attempt", "state",
              "reward", "seconds", "task");
  int shown = 0;
  for (const auto& [purpose, kind] : kKinds) {
    const auto print = [&](const v1::Episode& episode) {
      std::printf("%-34s %-5s %7ld %6d %7d %-9s %8.3f %8.2f  %s\n", base::Printable(episode.episode_id()).c_str(), kind,
                  static_cast<long>(episode.ref().group_id()), episode.ref().sample_index(), episode.ref().attempt(),
                  tree::StateName(episode.state()).c_str(), tree::ReturnOf(episode), tree::SecondsOf(episode),
                  base::Printable(episode.task().task_id()).c_str());
      ++shown;
    };
    INGOT_ASSIGN_OR_RETURN(const bool more, VisitEpisodes(*run.pool, purpose, std::max(limit, 0), print));
    if (more) std::printf("... more %s episodes; --limit shows them\n", kind);
  }
  if (shown == 0) std::printf("no episodes are stored (datapool.keep_steps sets how long they are kept)\n");
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

// One line per episode. stdout has only records; stderr says which kinds have more.
absl::StatusOr<int> PrintRecords(const OpenRun& run, int limit) {
  std::vector<std::string> ids;
  std::string left_out;
  for (const auto& [purpose, kind] : kKinds) {
    const auto note = [&](const v1::Episode& episode) { ids.push_back(episode.episode_id()); };
    INGOT_ASSIGN_OR_RETURN(const bool more, VisitEpisodes(*run.pool, purpose, std::max(limit, 0), note));
    if (more) absl::StrAppend(&left_out, left_out.empty() ? "" : ", ", kind);
  }
  // Lines that scroll by are progress enough.
  Progress progress("inspect", stderr, base::Clock::Real(), OutputGoesElsewhere() ? 1 : 0);
  int64_t printed = 0;
  for (const std::string& id : ids) {
    progress.Show("episodes", printed++, std::ssize(ids));
    INGOT_ASSIGN_OR_RETURN(const std::string text, ToJson(*run.pool, id, /*lines=*/false));
    std::printf("%s\n", text.c_str());
  }
  if (!left_out.empty()) {
    std::fprintf(stderr, "inspect: --limit %d leaves out more episodes (%s); --limit 0 prints all\n", limit,
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
    return args.json ? PrintRecords(run, args.limit.value_or(0)) : List(run, args.limit.value_or(kListed));
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
  INGOT_ASSIGN_OR_RETURN(const std::string text, tree::RenderTree(tree, [&run](std::span<const int32_t> ids) {
                           return run.text.tokenizer->Decode(ids, false);
                         }));
  std::printf("%s", text.c_str());
  return 0;
}

}  // namespace

int Inspect(const InspectArgs& args) {
  const absl::StatusOr<int> code = InspectOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
