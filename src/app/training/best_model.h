// The model with the best held-out reward so far (eval.keep_best), as a Hugging Face folder that serves.
//
//   ROOT/candidate-00000012/   the weights of version 12, from before its evaluation until it has ended
//   ROOT/best/                 the version with the greatest reward, of those whose evaluation has ended
//     best.json                its version, weights_checksum, reward_mean, episodes and failed
//     checksums.json           of its other files (base/written_files.h), compared when the folder is loaded
//
// When the reward of a version is known, the trainer has moved on, and only the engines hold the version's weights. A
// trainer that was killed in the meantime would restart without them, so they are on disk before the evaluation starts.
// A better model swaps names with `best` atomically. A candidate is whole once it has best.json, whose reward comes
// last.
//
// The trainer's thread calls it (of several ranks rank 0's); it blocks on disk. After an error the call may be made
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"

namespace ingot::app {

// The result of one version's evaluation.
struct VersionScore {
  int64_t version = -1;
  double reward = 0;  // eval/reward_mean
  int64_t episodes = 0;
  int64_t failed = 0;  // of the episodes; a version whose episodes all failed is never the best
};

class BestModel {
 public:
  // Writes a model folder's config.json and weights into an existing folder.
  using WriteModel = std::function<absl::Status(const std::string& folder)>;

  // `root`: folder of the run's checkpoints. `files`: tokenizer and the like, by name below a model's folder (NAME or
  // FOLDER/NAME); it must outlive this.
  BestModel(bool on, std::string root, const std::map<std::string, std::string>& files)
      : on_(on), root_(std::move(root)), files_(files) {}

  bool on() const { return on_; }
  std::string folder() const { return root_ + "/best"; }

  // Keeps a version whose evaluation is about to start, and replaces an earlier candidate with that number. Durable
  // when it returns.
  absl::Status Save(int64_t version, const std::string& weights_checksum, const WriteModel& write) const;

  // The version's evaluation has ended: makes it the best, or drops it. True = it is the best now. If rewards are
  // equal, the earlier version stays. A second call for the same evaluation changes nothing.
  absl::StatusOr<bool> Offer(const VersionScore& score) const;

  // Removes the candidates of all versions but these.
  void DropOthers(const std::set<int64_t>& versions) const;

  // nullopt = there is none so far.
  absl::StatusOr<std::optional<VersionScore>> Best() const;

 private:
  std::string Candidate(int64_t version) const;

  const bool on_;
  const std::string root_;
  const std::map<std::string, std::string>& files_;
};

}  // namespace ingot::app
