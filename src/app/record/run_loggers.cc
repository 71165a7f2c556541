#include "app/record/run_loggers.h"

#include <utility>
#include <vector>

#include "app/models/http_post.h"
#include "base/file.h"
#include "base/secret.h"
#include "loggers/mlflow.h"
#include "loggers/otlp.h"
#include "loggers/trackio.h"
#include "loggers/wandb.h"
#include "reward/python/python_options.h"

namespace ingot::app {
namespace {

absl::StatusOr<std::string> PostJson(const std::string& url, const std::string& body, const std::string& key) {
  HttpPost post;
  post.url = url;
  post.body = body;
  post.key = key;
  post.timeout_s = 10;
  return Post(post);
}

absl::StatusOr<std::string> KeyIn(const std::string& file) {
  return file.empty() ? absl::StatusOr<std::string>("") : base::ReadSecret(file);
}

// Returns the state that the logger saved earlier.
std::string StateOf(const std::string& folder, const std::string& name) {
  const absl::StatusOr<std::string> text = base::ReadFile(absl::StrCat(folder, "/", name, ".json"));
  if (!text.ok()) return "";
  const absl::StatusOr<loggers::Place> place = loggers::ReadPlace(*text);
  return place.ok() ? place->state : "";
}

absl::StatusOr<std::unique_ptr<loggers::Logger>> WandbOf(const RunConfig& config, const RunDir& dir,
                                                         const std::string& effective_yaml, const std::string& state) {
  const LoggerOptions& options = config.loggers;
  loggers::WandbOptions wandb;
  INGOT_ASSIGN_OR_RETURN(wandb.key, KeyIn(options.wandb_key_file));
  wandb.python = config.python.empty() ? reward::UserPython() : config.python;
  wandb.project = options.wandb_project;
  wandb.entity = options.wandb_entity;
  wandb.mode = options.wandb_mode;
  wandb.folder = dir.path();
  wandb.output = dir.logs() + "/wandb.log";
  return std::make_unique<loggers::Wandb>(std::move(wandb), config.name, effective_yaml, state);
}

}  // namespace

absl::StatusOr<std::unique_ptr<loggers::Follower>> FollowRun(const RunConfig& config, const RunDir& dir,
                                                             const std::string& effective_yaml,
                                                             datapool::Client* pool) {
  const LoggerOptions& options = config.loggers;
  const std::string folder = dir.path() + "/loggers";
  std::vector<std::unique_ptr<loggers::Logger>> list;
  if (!options.mlflow_url.empty()) {
    INGOT_ASSIGN_OR_RETURN(std::string key, KeyIn(options.mlflow_key_file));
    loggers::MlflowOptions mlflow{options.mlflow_url, options.mlflow_experiment, std::move(key)};
    list.push_back(std::make_unique<loggers::Mlflow>(std::move(mlflow), config.name, effective_yaml,
                                                     StateOf(folder, "mlflow"), PostJson));
  }
  if (!options.trackio_url.empty()) {
    INGOT_ASSIGN_OR_RETURN(std::string token, KeyIn(options.trackio_key_file));
    loggers::TrackioOptions trackio;
    trackio.url = options.trackio_url;
    trackio.project = options.trackio_project;
    const bool space = token.starts_with("hf_");
    (space ? trackio.key : trackio.write_token) = std::move(token);
    list.push_back(std::make_unique<loggers::Trackio>(std::move(trackio), config.name, PostJson));
  }
  if (!options.otlp_url.empty()) {
    INGOT_ASSIGN_OR_RETURN(std::string key, KeyIn(options.otlp_key_file));
    list.push_back(
        std::make_unique<loggers::Otlp>(loggers::OtlpOptions{options.otlp_url, std::move(key)}, config.name, PostJson));
  }
  if (!options.wandb_project.empty()) {
    INGOT_ASSIGN_OR_RETURN(auto wandb, WandbOf(config, dir, effective_yaml, StateOf(folder, "wandb")));
    list.push_back(std::move(wandb));
  }
  if (list.empty()) return nullptr;
  loggers::FollowerOptions follower;
  follower.record = dir.metrics();
  follower.folder = folder;
  auto started = std::make_unique<loggers::Follower>(std::move(follower), std::move(list), pool);
  started->Start();
  return started;
}

}  // namespace ingot::app
