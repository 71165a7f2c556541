// `ingot export`: writes trajectories of a run as training data, as the ids that were sampled.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/process.h"
#include "app/progress.h"
#include "app/stored_episodes.h"
#include "app/stored_run.h"
#include "base/json.h"
#include "dataset/recorded.h"
#include "tree/episode_return.h"

namespace ingot::app {
namespace {

namespace json = base::json;

struct Candidate {
  const v1::EpisodeTree* tree = nullptr;
  std::vector<dataset::RecordedRow> rows;
  int64_t sampled = 0;  // learnt tokens of all rows
  bool correct = false;
};

struct Counts {
  int64_t groups = 0, episodes = 0, correct = 0, written = 0;
};

class Exporter {
 public:
  explicit Exporter(const ExportArgs& args) : args_(args) {}

  absl::Status Open() {
    out_.open(args_.out, std::ios::binary | std::ios::trunc);
    if (out_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", args_.out, "' cannot be written: name a file in a folder that exists"));
  }

  absl::Status Add(const v1::Group& group) {
    std::vector<Candidate> candidates;
    ++counts_.groups;
    for (const v1::EpisodeTree& tree : group.episodes()) {
      if (tree.episode().state() != v1::EPISODE_FINISHED) continue;
      Candidate candidate;
      candidate.tree = &tree;
      auto rows = dataset::RowsOf(tree);
      if (!rows.ok()) return base::Annotate(rows.status(), "episode " + tree.episode().episode_id());
      candidate.rows = *std::move(rows);
      if (candidate.rows.empty()) continue;
      for (const dataset::RecordedRow& row : candidate.rows) {
        for (const auto& [begin, end] : row.learnt) candidate.sampled += end - begin;
      }
      candidate.correct = tree.episode().reward() > args_.above;
      ++counts_.episodes;
      counts_.correct += candidate.correct;
      candidates.push_back(std::move(candidate));
    }
    // Shortest first; equally short ones in the order of their samples.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.sampled < b.sampled; });
    return args_.as == "dpo" ? WritePairs(candidates) : WriteRows(candidates);
  }

  absl::StatusOr<Counts> Finish() {
    out_.close();
    if (out_) return counts_;
    return absl::UnavailableError(absl::StrCat("'", args_.out, "' could not be written whole: is the disk full?"));
  }

 private:
  // Rejection sampling: every correct episode, or the shortest of each group alone (Kimi k1.5, section 2.4).
  absl::Status WriteRows(const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) {
      if (!candidate.correct) continue;
      for (const dataset::RecordedRow& row : candidate.rows) Write(Described(row, *candidate.tree));
      if (args_.shortest) break;
    }
    return absl::OkStatus();
  }

  // Kimi k1.5, section 2.4: the shortest correct answer is chosen; every longer wrong one, and every correct one at least
  // 1.5 times as long, is rejected.
  absl::Status WritePairs(const std::vector<Candidate>& candidates) {
    const auto chosen =
        std::find_if(candidates.begin(), candidates.end(), [](const Candidate& one) { return one.correct; });
    if (chosen == candidates.end() || chosen->rows.size() != 1) return absl::OkStatus();
    for (const Candidate& other : candidates) {
      const double longer =
          static_cast<double>(other.sampled) / static_cast<double>(std::max<int64_t>(chosen->sampled, 1));
      const bool rejected = other.correct ? longer >= 1.5 : longer > 1;
      if (&other == &*chosen || !rejected || other.rows.size() != 1) continue;
      json::object pair;
      pair["chosen"] = Described(chosen->rows[0], *chosen->tree);
      pair["rejected"] = Described(other.rows[0], *other.tree);
      Write(std::move(pair));
    }
    return absl::OkStatus();
  }

  static json::object Described(const dataset::RecordedRow& row, const v1::EpisodeTree& tree) {
    json::object object = dataset::ToJson(row);
    const v1::Episode& episode = tree.episode();
    object["episode"] = episode.episode_id();
    object["task_id"] = episode.task().task_id();
    if (!episode.task().domain().empty()) object["domain"] = episode.task().domain();
    object["scaffold"] = episode.scaffold();
    object["outcome"] = episode.reward();
    object["reward"] = tree::ReturnOf(episode);
    return object;
  }

  void Write(json::object row) {
    out_ << base::PrintJson(row) << '\n';
    ++counts_.written;
  }

  const ExportArgs& args_;
  std::ofstream out_;
  Counts counts_;
};

// The ids of the training groups that the pool holds, ascending.
absl::StatusOr<std::vector<int64_t>> StoredGroups(datapool::Client& pool) {
  std::vector<int64_t> groups;
  INGOT_RETURN_IF_ERROR(VisitEpisodes(pool, v1::PURPOSE_TRAIN, 0, [&](const v1::Episode& episode) {
                          const int64_t id = episode.ref().group_id();
                          if (groups.empty() || groups.back() != id) groups.push_back(id);
                        }).status());
  return groups;
}

absl::StatusOr<int> ExportOrError(const ExportArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const StoredRun run, OpenStoredRun(args.run_dir));
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, StoredGroups(*run.pool));
  Exporter exporter(args);
  INGOT_RETURN_IF_ERROR(exporter.Open());
  Progress progress("export");
  int64_t looked_at = 0;
  for (const int64_t id : groups) {
    progress.Show("groups", looked_at++, std::ssize(groups));
    v1::GetGroupRequest request;
    request.set_group_id(id);
    request.set_purpose(v1::PURPOSE_TRAIN);
    const absl::StatusOr<v1::Group> group = run.pool->GetGroup(request);
    if (absl::IsNotFound(group.status())) continue;  // deleted meanwhile by the run
    INGOT_RETURN_IF_ERROR(group.status());
    INGOT_RETURN_IF_ERROR(exporter.Add(*group));
  }
  progress.Clear();
  INGOT_ASSIGN_OR_RETURN(const Counts counts, exporter.Finish());
  std::printf("%ld groups, %ld finished episodes, %ld with an outcome above %g: %ld %s in %s\n",
              static_cast<long>(counts.groups), static_cast<long>(counts.episodes), static_cast<long>(counts.correct),
              args.above, static_cast<long>(counts.written), args.as == "dpo" ? "pairs" : "rows", args.out.c_str());
  if (counts.written > 0) return 0;
  return absl::NotFoundError("nothing was exported: no episode, or no pair, met the conditions");
}

}  // namespace

int Export(const ExportArgs& args) {
  const absl::StatusOr<int> code = ExportOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
