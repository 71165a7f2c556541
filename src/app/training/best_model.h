// Stores the model with the best held-out reward so far (eval.keep_best) as a Hugging Face folder that can be served.
//
//   ROOT/candidate-00000012/   version 12's weights, from before its evaluation until the evaluation ends
//   ROOT/best/                 the version with the highest reward among completed evaluations
//     best.json                its version, weights_checksum, reward_mean, episodes, and failed
//     checksums.json           checksums of its other files (base/written_files.h), verified when the folder is loaded
//
// By the time a version's reward is known, the trainer has moved on, and only the engines still have that version's
// weights. If the trainer were killed in the meantime, it would restart without them. So the weights are saved before
// the evaluation starts. A better model replaces `best` by atomically swapping names. A candidate is complete once it
// has best.json, which is written last.
//
// Call on the trainer's thread (if there are several ranks, on rank 0's). Blocks on disk. After an error, retrying is
// safe.
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

// The result of evaluating one version.
struct VersionScore {
  int64_t version = -1;
  double reward = 0;  // eval/reward_mean
  int64_t episodes = 0;
  int64_t failed = 0;  // failed episodes; if all episodes failed, the version is never the best
};

class BestModel {
 public:
  // Writes a model folder's config.json and weights into an existing folder.
  using WriteModel = std::function<absl::Status(const std::string& folder)>;

  // `root` is the run's checkpoint folder. `files` has the tokenizer files and similar files by their path in a model
  // folder (NAME or FOLDER/NAME). REQUIRES: `files` outlives this object.
  BestModel(bool on, std::string root, const std::map<std::string, std::string>& files)
      : on_(on), root_(std::move(root)), files_(files) {}

  bool on() const { return on_; }
  std::string folder() const { return root_ + "/best"; }

  // Saves a version durably before its evaluation starts. Replaces any earlier candidate for the same version.
  absl::Status Save(int64_t version, const std::string& weights_checksum, const WriteModel& write) const;

  // Handles the end of a version's evaluation: promotes the version to best, or drops it. Returns whether it is now the
  // best. On a tie, the earlier version remains the best. Repeating the call for the same evaluation has no effect.
  absl::StatusOr<bool> Offer(const VersionScore& score) const;

  // Removes the candidates of all versions except these.
  void DropOthers(const std::set<int64_t>& versions) const;

  // Returns nullopt if there is no best version yet.
  absl::StatusOr<std::optional<VersionScore>> Best() const;

 private:
  std::string Candidate(int64_t version) const;

  const bool on_;
  const std::string root_;
  const std::map<std::string, std::string>& files_;
};

}  // namespace ingot::app
