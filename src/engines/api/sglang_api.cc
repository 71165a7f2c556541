// Follows the source of SGLang 0.5.23: srt/entrypoints/http_server.py, srt/managers/io_struct.py, tokenizer_manager.py
// and scheduler.py, srt/layers/sampler.py, and srt/utils/weight_versions.py.
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "engines/api/api_values.h"
#include "engines/api/engine_api.h"
#include "engines/api/structural_tag.h"

namespace ingot::engines {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// A prompt and its answer are at most this much shorter than --context-length, and a prompt alone is shorter by
// kPromptReserve (tp_worker.py and init_req_max_new_tokens).
constexpr int64_t kReserve = 2, kPromptReserve = 6;
constexpr int64_t kMostLorasPerBatch = 8;  // the server's default

// Entry [log-prob, id, text]. The server writes null for a log-prob that is not a finite number.
absl::StatusOr<float> ReadLogprob(const value& entry) {
  if (!entry.is_array() || entry.get_array().size() < 2) return Broken("a log-prob is not a list of number and id");
  const std::optional<double> logprob = Number(&entry.get_array()[0]);
  if (!logprob.has_value()) return Broken("a token has no log-prob");
  return static_cast<float>(*logprob);
}

const array* ArrayAt(const value& meta, const char* name) {
  const value* list = base::Find(meta, name);
  return list != nullptr && list->is_array() ? &list->get_array() : nullptr;
}

absl::StatusOr<v1::TopLogprobs> ReadTop(const value& row) {
  v1::TopLogprobs top;
  if (!row.is_array()) return top;  // null = none
  for (const value& entry : row.get_array()) {
    INGOT_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(entry));
    INGOT_ASSIGN_OR_RETURN(const int32_t id, ReadId(&entry.get_array()[1]));
    v1::TopLogprob& added = *top.add_entries();
    added.set_token_id(id);
    added.set_logprob(logprob);
  }
  return top;
}

absl::Status ReadLogprobs(const value& meta, AnswerEvent& event) {
  const array* logprobs = ArrayAt(meta, "output_token_logprobs");
  const array* tops = ArrayAt(meta, "output_top_logprobs");
  const size_t count = logprobs == nullptr ? 0 : logprobs->size();
  if (count != event.ids.size()) return Broken("the numbers of ids and log-probs differ");
  for (size_t i = 0; i < count; ++i) {
    INGOT_ASSIGN_OR_RETURN(const float logprob, ReadLogprob((*logprobs)[i]));
    if (Integer(&(*logprobs)[i].get_array()[1]) != event.ids[i]) return Broken("a log-prob is for another id");
    event.logprobs.push_back(logprob);
    v1::TopLogprobs& top = event.top_logprobs.emplace_back();
    if (tops == nullptr || i >= tops->size()) continue;
    INGOT_ASSIGN_OR_RETURN(top, ReadTop((*tops)[i]));
  }
  return absl::OkStatus();
}

ServerFinish FinishOf(const value* reason) {
  if (reason == nullptr || reason->is_null()) return ServerFinish::kNone;
  const value* type = base::Find(*reason, "type");
  return type == nullptr ? ServerFinish::kFailed : ReadFinish(type);
}

absl::Status CheckLogprobs(const v1::GenerateRequest& request, LogprobKind kind) {
  const float temperature = request.sampling().temperature();
  if (temperature == 1 || (temperature == 0 && request.score_ids() == 0)) return absl::OkStatus();
  if (request.score_ids() > 0 || ShapesLogits(request.sampling())) {
    return Unsupported(
        "sampling.temperature",
        "the server scores given ids, and so answers with penalties, biases, or grammars, at temperature "
        "1 only: set it to 1");
  }
  if (kind == LogprobKind::kProcessed) return absl::OkStatus();
  return Unsupported("sampling.temperature",
                     "the server reports raw log-probs, which are for temperature 1: set it to 1, or start the server "
                     "without SGLANG_RETURN_ORIGINAL_LOGPROB");
}

absl::Status CheckSupported(const v1::GenerateRequest& request, const GenerateContext& context) {
  INGOT_RETURN_IF_ERROR(CheckTextOnly(request));
  if (request.prompt_ids_size() < context.model.context_length - kPromptReserve) return absl::OkStatus();
  return Unsupported("prompt_ids", absl::StrCat("the server takes prompts of fewer than ",
                                                context.model.context_length - kPromptReserve,
                                                " ids, its context without ", kPromptReserve));
}

absl::Status AddShaping(const v1::SamplingParams& sampling, object& params) {
  if (sampling.min_new_tokens() > 0) params["min_new_tokens"] = sampling.min_new_tokens();
  if (!sampling.has_grammar()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const object tag, StructuralTagOf(sampling.grammar()));
  params["structural_tag"] = base::PrintJson(tag);
  params["ignore_eos"] = false;  // with true, the answer continues after the grammar's end
  return absl::OkStatus();
}

// The server rejects a key that it does not know.
absl::StatusOr<object> SamplingOf(const v1::GenerateRequest& request, const GenerateContext& context) {
  const v1::SamplingParams& sampling = request.sampling();
  // Scoring the answer takes a prompt of its own (ExternalCall).
  const int64_t reserve = ShapesLogits(sampling) ? kPromptReserve + 1 : kReserve;
  const int64_t room = context.model.context_length - request.prompt_ids_size() - reserve;
  if (room < 1) return Unsupported("prompt_ids", "they leave no room in the context for an answer and its scoring");
  object params = SharedSampling(sampling, context.model);
  params["max_new_tokens"] = std::min<int64_t>(sampling.max_new_tokens(), room);
  if (context.seeds) params["sampling_seed"] = SignedSeed(sampling);
  INGOT_RETURN_IF_ERROR(AddShaping(sampling, params));
  return params;
}

absl::Status CheckFlag(const value& info, const char* name, bool wanted, std::string_view why) {
  const value* flag = base::Find(info, name);
  if (flag != nullptr && flag->is_bool() && flag->get_bool() == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("sglang reports no ", name, ": ", base::View(why)));
}

class SglangApi final : public EngineApi {
 public:
  std::string name() const override { return "sglang"; }
  ServerFlags flags() const override {
    return {.context = "--context-length",
            .raw_logprobs = "SGLANG_RETURN_ORIGINAL_LOGPROB=1",
            .processed_logprobs = "no SGLANG_RETURN_ORIGINAL_LOGPROB"};
  }
  std::string caveat() const override {
    return "written after the source of SGLang 0.5.23; not run against a real server";
  }
  std::vector<std::string> TokenizerFlags(const std::string& tokenizer_dir) const override {
    if (tokenizer_dir.empty()) return {"--skip-tokenizer-init"};
    return {"--tokenizer-path", tokenizer_dir};
  }
  std::vector<std::string> AdapterFlags(int64_t rank, int64_t held) const override {
    return {"--enable-lora",
            "--max-lora-rank",
            absl::StrCat(rank),
            "--lora-target-modules",
            "all",
            "--max-loras-per-batch",
            absl::StrCat(std::min(held + 2, kMostLorasPerBatch)),
            "--max-loaded-loras",
            absl::StrCat(held + 3)};
  }

  absl::StatusOr<ServerRequest> Generate(const v1::GenerateRequest& request,
                                         const GenerateContext& context) const override {
    INGOT_RETURN_IF_ERROR(CheckSupported(request, context));
    INGOT_RETURN_IF_ERROR(CheckLogprobs(request, context.logprobs));
    const int64_t scored = request.score_ids();
    object params = {{"temperature", 1}, {"max_new_tokens", 1}, {"ignore_eos", true}};
    if (scored == 0) {
      INGOT_ASSIGN_OR_RETURN(params, SamplingOf(request, context));
    }
    object body = {{"input_ids", array(request.prompt_ids().begin(), request.prompt_ids().end())},
                   {"sampling_params", std::move(params)},
                   {"return_logprob", true},
                   {"stream", scored == 0}};
    // The first position has no log-prob, so one more is asked for.
    if (scored > 0) body["logprob_start_len"] = request.prompt_ids_size() - scored - 1;
    if (request.top_logprobs() > 0) body["top_logprobs_num"] = request.top_logprobs();
    if (!context.salt.empty()) body["extra_key"] = context.salt;
    if (!context.adapter.empty()) body["lora_path"] = context.adapter;
    return ServerRequest{.path = "/generate", .body = base::PrintJson(body)};
  }

  // Both kinds of log-probs are from after penalties, biases, and grammars.
  bool NeedsScoring(const v1::SamplingParams& sampling) const override { return ShapesLogits(sampling); }

  absl::StatusOr<std::optional<AnswerEvent>> ReadEvent(std::string_view data) const override {
    if (data == "[DONE]") return std::nullopt;
    absl::StatusOr<value> json = base::ParseJson(data);
    if (!json.ok()) return Broken(std::string(json.status().message()));
    if (const value* error = base::Find(*json, "error"); error != nullptr && !error->is_null()) return ErrorOf(*error);
    AnswerEvent event;
    INGOT_RETURN_IF_ERROR(ReadAnswer(*json, event));
    return event;
  }

  absl::StatusOr<AnswerEvent> ReadScores(const v1::GenerateRequest& request, std::string_view body) const override {
    absl::StatusOr<value> json = base::ParseJson(body);
    if (!json.ok()) return Broken(std::string(json.status().message()));
    AnswerEvent whole, event;
    INGOT_RETURN_IF_ERROR(ReadAnswer(*json, whole));
    const array* scores = ArrayAt(*base::Find(*json, "meta_info"), "input_token_logprobs");
    const int64_t scored = request.score_ids();
    if (scores == nullptr || std::ssize(*scores) != scored + 1) return Broken("it does not score the prompt");
    for (int64_t i = 0; i < scored; ++i) {
      const value& entry = (*scores)[static_cast<size_t>(i) + 1];
      INGOT_ASSIGN_OR_RETURN(const float logprob, ReadLogprob(entry));
      const int32_t id = request.prompt_ids(static_cast<int>(request.prompt_ids_size() - scored + i));
      const std::optional<int64_t> named = Integer(&entry.get_array()[1]);
      if (named != id && named != 0) return Broken("a score is for another id");  // it writes 0 for the last id
      event.ids.push_back(id);
      event.logprobs.push_back(logprob);
      event.top_logprobs.emplace_back();
    }
    event.finish = ServerFinish::kStop;
    // The label of the new token: weights that arrive while the prompt is computed in chunks count for all of it.
    if (whole.spans.size() == 1) event.spans = {{whole.spans[0].label, 0, scored}};
    return event;
  }

  ServerRequest Abort(const std::string& server_request_id) const override {
    return {.path = "/abort_request", .body = base::PrintJson(object{{"rid", server_request_id}})};
  }

  absl::Status CheckSwap(SwapMode mode) const override {
    if (mode != SwapMode::kDrain) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "rollout.external.swap is drain, but SGLang has no pause that lets requests finish: set keep, recompute, or "
        "abort");
  }
  // Its own mode `abort` is not used: it waits forever if the server is already paused, and does not pause the scheduler.
  std::vector<ServerRequest> Pause(SwapMode mode) const override {
    if (mode == SwapMode::kKeep) return {PauseCall("in_place")};
    std::vector<ServerRequest> calls = {PauseCall("retract")};
    if (mode == SwapMode::kAbort) {
      calls.push_back({.path = "/abort_request", .body = base::PrintJson(object{{"abort_all", true}})});
    }
    calls.push_back({.path = "/flush_cache"});
    return calls;
  }
  ServerRequest Load(const std::string& model_dir) const override {
    // Pause has flushed the cache if it must be, and a flush fails while requests keep theirs.
    return {.path = "/update_weights_from_disk",
            .body = base::PrintJson(object{{"model_path", model_dir}, {"flush_cache", false}})};
  }
  ServerRequest SetLabel(const std::string& label) const override {
    return {.path = "/update_weight_version",
            .body = base::PrintJson(object{{"new_version", label}, {"abort_all_requests", false}})};
  }
  ServerRequest Resume() const override { return {.path = "/continue_generation", .body = "{}"}; }
  ServerRequest LoadAdapter(const std::string& name, const std::string& adapter_dir) const override {
    return {.path = "/load_lora_adapter",
            .body = base::PrintJson(object{{"lora_name", name}, {"lora_path", adapter_dir}})};
  }
  ServerRequest UnloadAdapter(const std::string& name) const override {
    return {.path = "/unload_lora_adapter", .body = base::PrintJson(object{{"lora_name", name}})};
  }
  // /health samples a token, which a paused server does not. The server ends itself if its scheduler dies.
  ServerRequest Health() const override { return GetLabel(); }
  ServerRequest GetLabel() const override { return {.method = "GET", .path = "/model_info"}; }
  absl::StatusOr<std::string> ReadLabel(std::string_view body) const override {
    const absl::StatusOr<value> json = base::ParseJson(body);
    const value* label = json.ok() ? base::Find(*json, "weight_version") : nullptr;
    if (label == nullptr || !label->is_string()) return Broken("/model_info has no weight_version");
    return std::string(label->get_string());
  }
  ServerRequest Info() const override { return {.method = "GET", .path = "/server_info"}; }
  absl::StatusOr<int64_t> ReadContextLength(std::string_view body, SwapMode swap) const override {
    const absl::StatusOr<value> json = base::ParseJson(body);
    if (!json.ok() || !json->is_object()) return Broken("/server_info is not an object");
    INGOT_RETURN_IF_ERROR(
        CheckFlag(*json, "incremental_streaming_output", true,
                  "start it with --incremental-streaming-output, because each event repeats the whole "
                  "answer without it"));
    if (swap == SwapMode::kKeep) {
      INGOT_RETURN_IF_ERROR(CheckFlag(*json, "disable_overlap_schedule", true,
                                      "start it with --disable-overlap-schedule, or set rollout.external.swap to "
                                      "recompute, because a token that was being sampled during the pause gets the "
                                      "label of the next weights without it"));
    }
    const std::optional<int64_t> prompt = Integer(base::Find(*json, "max_req_input_len"));
    return prompt.has_value() ? *prompt + kPromptReserve : 0;
  }

  absl::Status StatusOf(int http_status, std::string_view body) const override {
    if (http_status >= 200 && http_status < 300) return absl::OkStatus();
    const std::string said = absl::StrCat("sglang answered ", http_status, ": ", base::Shown(std::string(body)));
    const auto says = [&](std::string_view words) { return body.find(words) != std::string_view::npos; };
    if (http_status == 404 || http_status == 405) {
      return absl::FailedPreconditionError(absl::StrCat(said, "; it needs SGLang 0.5.23 or newer"));
    }
    if (http_status == 401 || http_status == 403) {
      return absl::FailedPreconditionError(absl::StrCat(said, "; set rollout.external.api_key_file"));
    }
    if (says("LoRA is not enabled")) {
      return absl::FailedPreconditionError(absl::StrCat(said, "; start it with --enable-lora"));
    }
    // An adapter that the server does not have, such as after a restart.
    if (says("has never been loaded") || says("LoRA adapters are not loaded")) return absl::UnavailableError(said);
    if (http_status == 400 || http_status == 422) return absl::InvalidArgumentError(said);
    if (http_status == 429) return absl::ResourceExhaustedError(said);
    return absl::UnavailableError(said);
  }

 private:
  static ServerRequest PauseCall(const char* mode) {
    return {.path = "/pause_generation", .body = base::PrintJson(object{{"mode", mode}})};
  }

  absl::Status ErrorOf(const value& error) const {
    return StatusOf(ReadErrorStatus(base::Find(error, "code"), 500), base::PrintJson(error));
  }

  // Reads an event or a whole response, which have the same form.
  absl::Status ReadAnswer(const value& json, AnswerEvent& event) const {
    const value *meta = base::Find(json, "meta_info"), *ids = base::Find(json, "output_ids");
    if (meta == nullptr || !meta->is_object()) return Broken("it has no meta_info");
    if (const value* id = base::Find(*meta, "id"); id != nullptr && id->is_string()) {
      event.request_id = std::string(id->get_string());
    }
    const value* reason = base::Find(*meta, "finish_reason");
    event.finish = FinishOf(reason);
    INGOT_RETURN_IF_ERROR(ReadSpans(base::Find(*meta, "weight_versions"), event));
    if (event.finish == ServerFinish::kAborted) {
      // A request that was refused after its head was sent, such as a prompt that is too long, has a status. The event
      // may repeat an id.
      return StatusOf(ReadErrorStatus(base::Find(*reason, "status_code"), 200), base::PrintJson(*reason));
    }
    if (ids == nullptr || !ids->is_array()) return Broken("it has no output_ids");
    INGOT_RETURN_IF_ERROR(ReadIds(ids->get_array(), event));
    event.total = Integer(base::Find(*meta, "completion_tokens")).value_or(0);
    return ReadLogprobs(*meta, event);
  }
};

}  // namespace

std::unique_ptr<EngineApi> NewSglangApi() { return std::make_unique<SglangApi>(); }

}  // namespace ingot::engines
