// `ingot import`: converts ATIF trajectories to episodes in a pool, which `export`, `regrade`, `tasks rate`, and
// `inspect` can read.
#include "app/commands/data/import.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/terminal/progress.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "datapool/store.h"
#include "dataset/atif.h"
#include "dataset/jsonl.h"
#include "tree/reward_bounds.h"
#include "tree/segment_key.h"

namespace ingot::app {
namespace {

using base::json::value;

v1::Segment PromptSegment(const tree::CallPath& path) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_PROMPT);
  for (const int32_t id : path.context.Tokens()) segment.add_token_ids(id);
  return segment;
}

v1::Segment SampledSegment(const tree::CallPath& path) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_SAMPLED);
  segment.mutable_token_ids()->Add(path.sampled.begin(), path.sampled.end());
  segment.mutable_logprobs()->Add(path.logprobs.begin(), path.logprobs.end());
  segment.add_versions()->set_count(static_cast<int32_t>(path.sampled.size()));
  return segment;
}

class Importer {
 public:
  Importer(datapool::Client& pool, const TextParts& text) : pool_(pool), text_(text) {}

  absl::Status Add(const value& json) {
    INGOT_ASSIGN_OR_RETURN(const dataset::AtifTrajectory trajectory, dataset::FromAtif(json, *text_.format));
    const std::string fault = tree::RewardFault(trajectory.outcome);
    if (!fault.empty()) return absl::InvalidArgumentError("its outcome " + fault);
    const std::string task = trajectory.task_id.empty() ? absl::StrCat("atif-", episodes_) : trajectory.task_id;
    const auto group = groups_.try_emplace(task, std::ssize(groups_)).first->second;
    v1::StoreEpisodeRequest open;
    v1::Episode& episode = *open.mutable_episode();
    episode.set_episode_id(absl::StrCat("atif-", episodes_));
    episode.mutable_ref()->set_group_id(group);
    episode.mutable_ref()->set_sample_index(samples_[group]++);
    episode.set_purpose(v1::PURPOSE_EVAL);
    episode.mutable_task()->set_task_id(task);
    episode.mutable_task()->set_payload_json("{}");
    episode.mutable_task()->set_domain(trajectory.domain);
    episode.set_scaffold(trajectory.agent);
    episode.set_metadata_json(base::PrintJson(base::json::object{{"atif", trajectory.id}}));
    episode.set_state(v1::EPISODE_OPEN);
    episode.set_opened_unix_ns(1);
    INGOT_RETURN_IF_ERROR(pool_.StoreEpisode(open));
    for (size_t c = 0; c < trajectory.calls.size(); ++c) {
      INGOT_RETURN_IF_ERROR(AddCall(trajectory.calls[c], episode.episode_id(), static_cast<int32_t>(c)));
    }
    v1::StoreEndRequest end;
    end.set_episode_id(episode.episode_id());
    end.set_state(v1::EPISODE_FINISHED);
    end.set_reward(trajectory.outcome);
    end.mutable_signals()->insert(trajectory.signals.begin(), trajectory.signals.end());
    end.set_ended_unix_ns(1);
    ++episodes_;
    without_outcome_ += trajectory.has_outcome ? 0 : 1;
    return pool_.StoreEnd(end);
  }

  void Report(const std::string& folder) const {
    std::printf("%ld episodes of %zu tasks, %ld calls, %ld of them encoded from text, in %s\n",
                static_cast<long>(episodes_), groups_.size(), static_cast<long>(calls_), static_cast<long>(encoded_),
                folder.c_str());
    if (without_outcome_ > 0) {
      std::printf("%ld have no number extra.outcome: their outcome is 0\n", static_cast<long>(without_outcome_));
    }
  }

 private:
  absl::Status AddCall(const dataset::AtifCall& from, const std::string& episode_id, int32_t sequence) {
    v1::AppendCallRequest append;
    *append.add_segments() = PromptSegment(from.path);
    *append.add_segments() = SampledSegment(from.path);
    v1::Call& call = *append.mutable_call();
    call.set_call_id(absl::StrCat(episode_id, "-", sequence));
    call.set_episode_id(episode_id);
    call.set_sequence(sequence);
    call.set_branch(from.branch);
    call.add_context_keys(tree::SegmentKey(append.segments(0)));
    call.add_sampled_keys(tree::SegmentKey(append.segments(1)));
    call.set_context_tokens(append.segments(0).token_ids_size());
    call.mutable_sampling()->set_temperature(1);
    call.set_tokenizer_fingerprint(text_.tokenizer->fingerprint());
    call.set_template_fingerprint(text_.format->fingerprint());
    call.set_model(from.model);
    call.set_weights(v1::WEIGHTS_EXTERNAL);
    call.set_finish(v1::FINISH_STOP);
    call.set_delivered_json(from.delivered_json);
    call.set_encoded(from.encoded);
    ++calls_;
    encoded_ += from.encoded ? 1 : 0;
    return pool_.AppendCall(append);
  }

  datapool::Client& pool_;
  const TextParts& text_;
  std::map<std::string, int64_t> groups_;  // by task id
  std::map<int64_t, int32_t> samples_;     // by group
  int64_t episodes_ = 0, calls_ = 0, encoded_ = 0, without_outcome_ = 0;
};

// A file contains either one trajectory on any number of lines or one trajectory per line.
absl::Status AddFile(const std::string& path, Importer& importer) {
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path, INT64_MAX));
  if (const auto whole = base::ParseJson(text); whole.ok()) return base::Annotate(importer.Add(*whole), path);
  return dataset::ReadJsonl(path, {}, [&](int64_t, std::string_view, const value& line) { return importer.Add(line); });
}

absl::StatusOr<int> ImportOrError(const ImportArgs& args) {
  Progress progress("import");
  progress.Show("reading the configuration");
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const TextParts text, TextPartsOf(config.model));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Open(config.root, config.name, config.if_exists));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, text));
  datapool::StoreOptions store = config.datapool;
  store.path = dir.pool();
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<datapool::Client> pool, datapool::OpenPool(store));
  Importer importer(*pool, text);
  for (size_t i = 0; i < args.files.size(); ++i) {
    progress.Show(args.files[i], static_cast<int64_t>(i), std::ssize(args.files));
    INGOT_RETURN_IF_ERROR(AddFile(args.files[i], importer));
  }
  progress.Clear();
  INGOT_RETURN_IF_ERROR(dir.DropReplaced());
  importer.Report(dir.path());
  return 0;
}

}  // namespace

int Import(const ImportArgs& args) {
  const absl::StatusOr<int> code = ImportOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
