// Sends a run to Weights & Biases through W&B's own package, in a helper process that runs the user's Python:
//
//   rows, evaluations ──▶ Wandb ──lines──▶ wandb_helper.py ──▶ wandb ──▶ RUN/wandb, W&B's server
//
// The helper confirms each line once wandb has it. An unconfirmed row is sent again, and the helper skips rows that it
// has already received. wandb uploads the data in the background, so a slow network does not cause delays. If the
// helper exits, it is restarted after restart_after and continues the same W&B run.
#pragma once

#include <chrono>
#include <string>

#include "base/json.h"
#include "loggers/line_process.h"
#include "loggers/logger.h"

namespace ingot::loggers {

struct WandbOptions {
  std::string python;  // interpreter with the wandb package
  std::string project = "ingot";
  std::string entity;         // empty = the account's default
  std::string mode = "auto";  // online, offline, or auto = WANDB_MODE
  std::string key;            // empty = WANDB_API_KEY, or credentials from `wandb login`
  std::string folder;         // RUN; wandb writes to RUN/wandb
  std::string output;         // log file of the helper; empty = none
  std::chrono::milliseconds answer_within{10000};
  std::chrono::milliseconds end_within{20000};
  std::chrono::milliseconds restart_after{30000};
};

class Wandb final : public Logger {
 public:
  // `run` is the run's name and `config` its configuration in YAML. `state` is State() from an earlier process.
  Wandb(WandbOptions options, std::string run, std::string config, const std::string& state);

  std::string name() const override { return "wandb"; }
  std::string State() const override { return run_id_; }  // W&B's run id
  absl::Status Rows(std::span<const view::Row> rows) override;
  bool wants_evaluations() const override { return true; }
  absl::Status Group(const v1::Group& group, const view::JournalGroup& journalled) override;
  absl::Status Evaluated(const view::Row& row) override;
  // Waits up to end_within for wandb to send everything. Unsent data stays in RUN/wandb for `wandb sync`.
  absl::Status End(bool ok) override;

 private:
  absl::Status EnsureStarted();
  absl::Status Ask(base::json::object request);

  const WandbOptions options_;
  const std::string run_, config_;
  std::string run_id_;
  bool ready_ = false;  // the helper has opened the W&B run
  std::chrono::steady_clock::time_point tried_{};
  absl::Status last_end_;  // why the helper is not running
  LineProcess helper_;
};

}  // namespace ingot::loggers
