#include "app/commands/model/served_record.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "app/models/kept_tokenizer.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "datapool/store.h"
#include "tree/contexts.h"

namespace ingot::app {
namespace {

namespace json = base::json;

constexpr int kPage = 10000;

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
}

template <typename Ids>
json::array IdsJson(const Ids& ids) {
  return json::array(ids.begin(), ids.end());
}

template <typename Keys>
json::array IdsOf(const v1::EpisodeTree& tree, const Keys& keys) {
  json::array ids;
  for (const std::string& key : keys) {
    for (const int32_t id : tree.segments().at(base::Hex(key)).token_ids()) ids.emplace_back(id);
  }
  return ids;
}

absl::StatusOr<json::object> CallJson(const v1::EpisodeTree& tree, const tree::Contexts& contexts,
                                      const v1::Call& call) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> prompt, contexts.KeysOf(call));
  return json::object{{"call_id", call.call_id()},
                      {"episode_id", call.episode_id()},
                      {"sequence", call.sequence()},
                      {"parent_call_id", call.parent_call_id()},
                      {"fork_cause", call.fork_cause()},
                      {"finish", v1::FinishReason_Name(call.finish())},
                      {"tool_call_malformed", call.tool_call_malformed()},
                      {"prompt_ids", IdsOf(tree, prompt)},
                      {"sampled_ids", IdsOf(tree, call.sampled_keys())}};
}

// Returns the configuration of a run that does not train. Commands that read the pool use it to find the model that the
// ids belong to.
std::string ConfigOf(const std::string& model_dir, const std::string& chat_format, const std::string& chat_template) {
  // valid because YAML includes JSON
  const auto quoted = [](const std::string& text) { return base::PrintJson(json::value(text)); };
  const auto whole = [&](const std::string& path) {
    return quoted(std::filesystem::absolute(path).lexically_normal().string());
  };
  return absl::StrCat("# Written by `ingot serve --record`, for `ingot inspect`. These calls have no task.\n",
                      "run: {name: served}\ndata: {tasks: none}\nmodel:\n  path: ", whole(model_dir),
                      "\n  chat_format: ", quoted(chat_format.empty() ? "auto" : chat_format),
                      chat_template.empty() ? "" : "\n  chat_template: " + whole(chat_template), "\n");
}

}  // namespace

class ServedRecord::RecordingEngine final : public rollout::Client {
 public:
  RecordingEngine(std::shared_ptr<rollout::Client> engine, ServedRecord& record)
      : engine_(std::move(engine)), record_(record) {}

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    record_.Note(request);
    return engine_->Generate(std::move(request), std::move(on_chunk));
  }
  absl::StatusOr<v1::EngineStatusResponse> Status() override { return engine_->Status(); }

 private:
  const std::shared_ptr<rollout::Client> engine_;
  ServedRecord& record_;
};

absl::StatusOr<std::unique_ptr<ServedRecord>> ServedRecord::Open(const std::string& dir, const std::string& model_dir,
                                                                 const std::string& chat_format,
                                                                 const std::string& chat_template,
                                                                 const TextParts& text) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("--record ", dir, ": ", error.message()));
  INGOT_RETURN_IF_ERROR(base::WriteFileDurably(dir + "/config.yaml", ConfigOf(model_dir, chat_format, chat_template)));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir, model_dir, text));
  auto record = std::unique_ptr<ServedRecord>(new ServedRecord(dir));
  datapool::StoreOptions options;
  options.path = dir + "/pool";
  INGOT_ASSIGN_OR_RETURN(record->pool_, datapool::OpenPool(options));
  base::MutexLock lock(record->mu_);
  record->asked_.open(dir + "/engine.jsonl", std::ios::app);
  if (!record->asked_) return CannotWrite(dir + "/engine.jsonl");
  return record;
}

std::shared_ptr<rollout::Client> ServedRecord::RecordRequests(std::shared_ptr<rollout::Client> engine) {
  return std::make_shared<RecordingEngine>(std::move(engine), *this);
}

void ServedRecord::Note(const v1::GenerateRequest& request) {
  const std::string line =
      base::PrintJson(json::object{{"call_id", request.request_id()}, {"prompt_ids", IdsJson(request.prompt_ids())}});
  base::MutexLock lock(mu_);
  asked_ << line << '\n' << std::flush;
  if (!asked_) INGOT_LOG(error, "call {} could not be recorded in {}/engine.jsonl", request.request_id(), dir_);
}

absl::Status ServedRecord::WriteCalls() {
  const std::string path = dir_ + "/calls.jsonl";
  std::ofstream file(path);
  v1::ListEpisodesRequest list;
  list.set_purpose(v1::PURPOSE_SERVE);
  list.set_last_group(-1);
  list.set_limit(kPage);
  INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse episodes, pool_->ListEpisodes(list));
  if (episodes.more()) INGOT_LOG(warn, "{} has only the calls of the first {} sessions", path, kPage);
  for (const v1::Episode& episode : episodes.episodes()) {
    v1::GetEpisodeRequest get;
    get.set_episode_id(episode.episode_id());
    get.set_with_calls(true);
    INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, pool_->GetEpisode(get));
    const tree::Contexts contexts(tree.calls());
    for (const v1::Call& call : tree.calls()) {
      INGOT_ASSIGN_OR_RETURN(const json::object line, CallJson(tree, contexts, call));
      file << base::PrintJson(line) << '\n';
    }
  }
  file.close();
  return file ? absl::OkStatus() : CannotWrite(path);
}

}  // namespace ingot::app
