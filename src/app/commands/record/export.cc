// `ingot export`: writes a run's trajectories as training data, with the ids that were sampled.
#include "app/commands/record/export.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/record/stored_groups.h"
#include "app/record/stored_run.h"
#include "app/run/named_models.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "dataset/atif.h"
#include "dataset/recall.h"
#include "dataset/recorded.h"
#include "tree/episode_return.h"

namespace ingot::app {
namespace {

namespace json = base::json;

struct Candidate {
  const v1::EpisodeTree* tree = nullptr;
  std::vector<dataset::RecordedRow> rows;
  int64_t sampled = 0;  // trained tokens in all rows
  bool correct = false;
};

struct Counts {
  int64_t groups = 0, episodes = 0, correct = 0, written = 0;
  int64_t forked = 0;  // episodes with several rows, which cannot be in pairs
};

class Exporter {
 public:
  Exporter(const ExportArgs& args, const gateway::GatewayOptions& gateway)
      : args_(args),
        other_models_(OtherModels(gateway)),
        recall_({.high = args.recall_high, .zero_share = args.zero_share}) {}

  absl::Status Open() {
    out_.open(args_.out, std::ios::binary | std::ios::trunc);
    if (out_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", args_.out, "' cannot be written: name a file in a folder that exists"));
  }

  // The tokenizer that turns ids into text.
  absl::Status ReadText(const StoredRun& run) {
    INGOT_ASSIGN_OR_RETURN(const TextParts parts, run.Text());
    tokenizer_ = parts.tokenizer;
    return absl::OkStatus();
  }

  absl::Status Add(const v1::Group& group) {
    ++counts_.groups;
    if (args_.as == "atif") return WriteAtif(group);
    std::vector<Candidate> candidates;
    for (const v1::EpisodeTree& tree : group.episodes()) {
      if (tree.episode().state() != v1::EPISODE_FINISHED) continue;
      Candidate candidate;
      candidate.tree = &tree;
      INGOT_ASSIGN_OR_RETURN(candidate.rows, RowsOf(tree));
      if (candidate.rows.empty()) continue;
      for (const dataset::RecordedRow& row : candidate.rows) {
        for (const auto& [begin, end] : row.learnt) candidate.sampled += end - begin;
      }
      const v1::Episode& episode = tree.episode();
      candidate.correct = args_.recall.empty() ? episode.reward() > args_.above
                                               : recall_.Keeps(episode.episode_id(), RecallOf(episode));
      ++counts_.episodes;
      counts_.correct += candidate.correct;
      candidates.push_back(std::move(candidate));
    }
    // Shortest first. Equal lengths stay in sample order.
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.sampled < b.sampled; });
    return args_.as == "dpo" ? WritePairs(std::move(candidates)) : WriteRows(candidates);
  }

  // The first pass of the selection by recall.
  absl::Status AddRecall(const v1::Group& group) {
    for (const v1::EpisodeTree& tree : group.episodes()) {
      const v1::Episode& episode = tree.episode();
      for (const auto& [name, value] : episode.signals()) signals_.insert(name);
      if (episode.state() != v1::EPISODE_FINISHED) continue;
      INGOT_ASSIGN_OR_RETURN(const auto rows, RowsOf(tree));
      if (!rows.empty()) recall_.Add(episode.episode_id(), RecallOf(episode));
    }
    return absl::OkStatus();
  }
  absl::Status DecideRecall() {
    recall_.Decide();
    if (signals_.contains(args_.recall)) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no episode has the signal '", args_.recall, "' of --recall; signals are: ",
                                            signals_.empty() ? "none" : absl::StrJoin(signals_, ", ")));
  }

  absl::StatusOr<Counts> Finish() {
    out_.close();
    if (out_) return counts_;
    return absl::UnavailableError(absl::StrCat("'", args_.out, "' could not be written completely: is the disk full?"));
  }

 private:
  absl::StatusOr<std::vector<dataset::RecordedRow>> RowsOf(const v1::EpisodeTree& tree) const {
    auto rows = dataset::RowsOf(tree, [&](const v1::Call& call) { return IsLearnt(tree.episode(), call); });
    if (!rows.ok()) return base::Annotate(rows.status(), "episode " + tree.episode().episode_id());
    return rows;
  }

  // A training run trains on the policy's turns. A collection trains on the turns of the model that was collected from.
  bool IsLearnt(const v1::Episode& episode, const v1::Call& call) const {
    if (episode.purpose() == v1::PURPOSE_TRAIN) return call.weights() == v1::WEIGHTS_FOLLOW;
    return !other_models_.contains(call.model());
  }

  // Includes every finished episode, correct or not, with its outcome.
  absl::Status WriteAtif(const v1::Group& group) {
    for (const v1::EpisodeTree& tree : group.episodes()) {
      if (tree.episode().state() != v1::EPISODE_FINISHED || tree.calls().empty()) continue;
      ++counts_.episodes;
      counts_.correct += tree.episode().reward() > args_.above;
      auto trajectory = dataset::ToAtif(tree, [this](const std::vector<int32_t>& ids) {
        return tokenizer_->DecodeText(ids, /*skip_special=*/false);
      });
      if (!trajectory.ok()) return base::Annotate(trajectory.status(), "episode " + tree.episode().episode_id());
      Write(*std::move(trajectory));
    }
    return absl::OkStatus();
  }

  // An episode without the signal found nothing.
  double RecallOf(const v1::Episode& episode) const {
    const auto found = episode.signals().find(args_.recall);
    return found == episode.signals().end() ? 0 : found->second;
  }

  // Rejection sampling: every correct episode, or only the shortest in each group (Kimi k1.5, section 2.4).
  absl::Status WriteRows(const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) {
      if (!candidate.correct) continue;
      for (const dataset::RecordedRow& row : candidate.rows) Write(Described(row, *candidate.tree));
      if (args_.shortest) break;
    }
    return absl::OkStatus();
  }

  // Kimi k1.5, section 2.4: the shortest correct answer is chosen. All longer wrong answers are rejected, and so are
  // all correct answers that are at least 1.5 times as long. Pairs consist only of episodes with one row, because an
  // episode that forked does not answer a single prompt.
  absl::Status WritePairs(std::vector<Candidate> candidates) {
    counts_.forked +=
        static_cast<int64_t>(std::erase_if(candidates, [](const Candidate& one) { return one.rows.size() != 1; }));
    const auto chosen =
        std::find_if(candidates.begin(), candidates.end(), [](const Candidate& one) { return one.correct; });
    if (chosen == candidates.end()) return absl::OkStatus();
    for (const Candidate& other : candidates) {
      const double longer =
          static_cast<double>(other.sampled) / static_cast<double>(std::max<int64_t>(chosen->sampled, 1));
      const bool rejected = other.correct ? longer >= 1.5 : longer > 1;
      if (&other == &*chosen || !rejected) continue;
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
  const std::set<std::string> other_models_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::ofstream out_;
  dataset::RecallChoice recall_;
  std::set<std::string> signals_;  // in any episode
  Counts counts_;
};

absl::StatusOr<int> ExportOrError(const ExportArgs& args) {
  if (args.as != "sft" && (args.shortest || !args.recall.empty())) {
    return absl::InvalidArgumentError("--shortest and --recall work only with --as sft");
  }
  if (args.shortest && !args.recall.empty()) {
    return absl::InvalidArgumentError("use either --shortest or --recall, not both");
  }
  Progress progress("export");
  progress.Show("reading the run");
  INGOT_ASSIGN_OR_RETURN(const StoredRun run, OpenStoredRun(args.run_dir));
  Exporter exporter(args, run.config().gateway);
  INGOT_RETURN_IF_ERROR(exporter.Open());
  if (args.as == "atif") INGOT_RETURN_IF_ERROR(exporter.ReadText(run));
  if (!args.recall.empty()) {
    INGOT_RETURN_IF_ERROR(
        VisitGroups(*run.pool, progress, [&](const v1::Group& group) { return exporter.AddRecall(group); }));
    INGOT_RETURN_IF_ERROR(exporter.DecideRecall());
  }
  INGOT_RETURN_IF_ERROR(VisitGroups(*run.pool, progress, [&](const v1::Group& group) { return exporter.Add(group); }));
  INGOT_ASSIGN_OR_RETURN(const Counts counts, exporter.Finish());
  const std::string chosen = args.recall.empty() ? absl::StrCat("with an outcome above ", args.above)
                                                 : absl::StrCat("chosen by '", args.recall, "'");
  std::printf("%ld groups, %ld finished episodes, %ld %s: %ld %s in %s\n", static_cast<long>(counts.groups),
              static_cast<long>(counts.episodes), static_cast<long>(counts.correct), chosen.c_str(),
              static_cast<long>(counts.written),
              args.as == "dpo"    ? "pairs"
              : args.as == "atif" ? "trajectories"
                                  : "rows",
              args.out.c_str());
  if (counts.forked > 0) {
    std::printf(
        "%ld episodes are in no pair, because their histories forked, and a pair needs two answers to the same "
        "prompt\n",
        static_cast<long>(counts.forked));
  }
  if (counts.written > 0) return 0;
  return absl::NotFoundError("nothing was exported: no episode or pair met the conditions; see --above");
}

}  // namespace

int Export(const ExportArgs& args) {
  const absl::StatusOr<int> code = ExportOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
