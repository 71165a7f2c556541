#include "loggers/wandb.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "base/random.h"
#include "loggers/wandb_helper.h"
#include "tree/episode_return.h"
#include "tree/render.h"

namespace ingot::loggers {
namespace {

using base::json::array;
using base::json::object;

// Returns the environment of this process, in which wandb finds its settings and proxies, with the key.
std::map<std::string, std::string> EnvironmentWith(const std::string& key) {
  std::map<std::string, std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0) env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  if (!key.empty()) env["WANDB_API_KEY"] = key;
  return env;
}

LineProcessOptions HelperOptions(const WandbOptions& options) {
  return {.name = "the wandb process",
          .argv = {options.python, "-I", "-c", std::string(kWandbHelper)},
          .env = EnvironmentWith(options.key),
          .output = options.output};
}

object ValuesOf(const view::Row& row) {
  object values{{"step", row.step}};
  for (const auto& [name, value] : row.values) {
    if (std::isfinite(value)) values[name] = value;
  }
  return values;
}

int64_t VersionOf(const view::Row& row) {
  return static_cast<int64_t>(row.Get("eval/version", static_cast<double>(row.step)));
}

}  // namespace

Wandb::Wandb(WandbOptions options, std::string run, std::string config, const std::string& state)
    : options_(std::move(options)),
      run_(std::move(run)),
      config_(std::move(config)),
      run_id_(state.empty() ? base::RandomHex(8) : state),
      helper_(HelperOptions(options_)) {}

absl::Status Wandb::EnsureStarted() {
  if (!helper_.running()) {
    const auto now = std::chrono::steady_clock::now();
    if (!last_end_.ok() && now - tried_ < options_.restart_after) return last_end_;
    tried_ = now;
    ready_ = false;
    last_end_ = helper_.Start();
    if (!last_end_.ok()) return last_end_;
  }
  if (ready_) return absl::OkStatus();
  const absl::Status opened = helper_
                                  .Ask({{"open", object{{"id", run_id_},
                                                        {"project", options_.project},
                                                        {"entity", options_.entity},
                                                        {"mode", options_.mode},
                                                        {"name", run_},
                                                        {"folder", options_.folder},
                                                        {"config", config_}}}},
                                       options_.answer_within)
                                  .status();
  ready_ = opened.ok();
  return opened;
}

absl::Status Wandb::Ask(object request) {
  absl::Status done = EnsureStarted();
  if (done.ok()) done = helper_.Ask(std::move(request), options_.answer_within).status();
  if (absl::IsInternal(done)) helper_.Stop(std::chrono::milliseconds(0));  // wandb cannot continue
  if (!helper_.running() && !done.ok()) last_end_ = done;
  return done;
}

absl::Status Wandb::Rows(std::span<const view::Row> rows) {
  for (const view::Row& row : rows) {
    INGOT_RETURN_IF_ERROR(Ask({{"row", ValuesOf(row)}, {"time", row.time}}));
  }
  return absl::OkStatus();
}

absl::Status Wandb::Group(const v1::Group& group, const view::JournalGroup&) {
  array samples;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    samples.push_back(array{base::Printable(episode.task().eval_set()), base::Printable(episode.task().task_id()),
                            episode.ref().sample_index(), tree::ReturnOf(episode), tree::StateName(episode.state()),
                            base::Printable(episode.detail())});
  }
  return Ask({{"samples", std::move(samples)}, {"group", group.group_id()}});
}

absl::Status Wandb::Evaluated(const view::Row& row) { return Ask({{"evaluated", VersionOf(row)}, {"step", row.step}}); }

absl::Status Wandb::End(bool ok) {
  if (!helper_.running()) return absl::OkStatus();
  const absl::Status ended = helper_.Ask({{"end", ok ? 0 : 1}}, options_.end_within).status();
  helper_.Stop(ended.ok() ? std::chrono::milliseconds(2000) : std::chrono::milliseconds(0));
  if (ended.ok()) return ended;
  return base::Annotate(ended, absl::StrCat("`wandb sync ", options_.folder, "/wandb/*run-*-", run_id_,
                                            "` uploads the missing data to W&B"));
}

}  // namespace ingot::loggers
