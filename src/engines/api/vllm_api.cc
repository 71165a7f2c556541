#include <algorithm>
#include <cmath>
#include <limits>
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

// The server's placeholder for a log-prob that is NaN, missing, or below -9999.
constexpr double kNoLogprob = -9999.0;
// The server's default for --max-logprobs. It rejects requests above this limit.
constexpr int32_t kMostLogprobs = 20;

// The float that Ingot records. Not a number and the stand-in become NaN, which is never recorded.
float RecordedLogprob(double logprob) {
  return logprob <= kNoLogprob ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(logprob);
}

absl::StatusOr<v1::TopLogprobs> ReadTop(const value& content) {
  v1::TopLogprobs top;
  const value* list = base::Find(content, "top_logprobs");
  if (list == nullptr || !list->is_array()) return top;
  for (const value& entry : list->get_array()) {
    INGOT_ASSIGN_OR_RETURN(const int32_t id, ReadId(base::Find(entry, "token_id")));
    const std::optional<double> logprob = Number(base::Find(entry, "logprob"));
    if (!logprob.has_value()) return Broken("an alternative has no log-prob");
    v1::TopLogprob& added = *top.add_entries();
    added.set_token_id(id);
    added.set_logprob(static_cast<float>(*logprob));
  }
  // The server puts the sampled id first.
  std::stable_sort(top.mutable_entries()->begin(), top.mutable_entries()->end(),
                   [](const auto& a, const auto& b) { return a.logprob() > b.logprob(); });
  return top;
}

absl::Status ReadLogprobs(const value& choice, AnswerEvent& event) {
  const value* logprobs = base::Find(choice, "logprobs");
  const value* content = logprobs == nullptr ? nullptr : base::Find(*logprobs, "content");
  if (content == nullptr || !content->is_array()) {
    return event.ids.empty() ? absl::OkStatus() : Broken("it has ids without log-probs");
  }
  if (content->get_array().size() != event.ids.size()) return Broken("the numbers of ids and log-probs differ");
  for (size_t i = 0; i < event.ids.size(); ++i) {
    const value& entry = content->get_array()[i];
    const std::optional<double> logprob = Number(base::Find(entry, "logprob"));
    if (!logprob.has_value()) return Broken("a token has no log-prob");
    if (Integer(base::Find(entry, "token_id")) != event.ids[i]) return Broken("a log-prob is for another id");
    event.logprobs.push_back(RecordedLogprob(*logprob));
    INGOT_ASSIGN_OR_RETURN(v1::TopLogprobs top, ReadTop(entry));
    event.top_logprobs.push_back(std::move(top));
  }
  return absl::OkStatus();
}

// Recorded is log_softmax(raw logits / temperature).
absl::Status CheckLogprobs(const v1::GenerateRequest& request, LogprobKind kind) {
  const v1::SamplingParams& sampling = request.sampling();
  if (kind == LogprobKind::kRaw || request.score_ids() > 0) {
    if (sampling.temperature() == 1 || sampling.temperature() == 0) return absl::OkStatus();
    return Unsupported("sampling.temperature",
                       "the server reports raw log-probs, which are for temperature 1: set it to 1, or start the "
                       "server with --logprobs-mode processed_logprobs");
  }
  if (sampling.temperature() > 0 && !Truncates(sampling) && !ShapesLogits(sampling)) return absl::OkStatus();
  return Unsupported("sampling",
                     "the server reports processed log-probs, which are from the truncated and penalized distribution: "
                     "turn off top_p, top_k, min_p, penalties, biases, and grammars, or start the server with "
                     "--logprobs-mode raw_logprobs and sample at temperature 1");
}

absl::Status CheckSupported(const v1::GenerateRequest& request, const GenerateContext& context) {
  INGOT_RETURN_IF_ERROR(CheckTextOnly(request));
  if (request.score_ids() > 0 && request.prompt_ids_size() >= context.model.context_length) {
    return Unsupported("prompt_ids",
                       absl::StrCat("the server samples an id after the ids that it scores, so they must be "
                                    "fewer than the context of ",
                                    context.model.context_length));
  }
  return absl::OkStatus();
}

absl::Status AddShaping(const v1::SamplingParams& sampling, object& params) {
  if (sampling.min_new_tokens() > 0) params["min_tokens"] = sampling.min_new_tokens();
  if (!sampling.has_grammar()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const object tag, StructuralTagOf(sampling.grammar()));
  params["structured_outputs"] = object{{"structural_tag", base::PrintJson(tag)}};
  params["ignore_eos"] = false;  // with true, the answer continues after the grammar's end
  return absl::OkStatus();
}

// A key that vLLM does not know is ignored without an error, so each one is spelled as in its SamplingParams.
absl::StatusOr<object> SamplingOf(const v1::GenerateRequest& request, const GenerateContext& context) {
  const v1::SamplingParams& sampling = request.sampling();
  // Scoring an answer that follows a grammar samples one more id (ExternalCall).
  const int64_t room =
      context.model.context_length - request.prompt_ids_size() - static_cast<int64_t>(sampling.has_grammar());
  if (room < 1) return Unsupported("prompt_ids", "they leave no room in the context for an answer and its scoring");
  object params = SharedSampling(sampling, context.model);
  params["max_tokens"] = std::min<int64_t>(sampling.max_new_tokens(), room);
  params["logprobs"] = request.top_logprobs() == 0 ? 0 : std::min(request.top_logprobs() + 1, kMostLogprobs);
  params["detokenize"] = false;
  if (context.seeds) params["seed"] = SignedSeed(sampling);
  INGOT_RETURN_IF_ERROR(AddShaping(sampling, params));
  return params;
}

// The server accepts these values alone.
int64_t MaxLoraRank(int64_t rank) {
  for (const int64_t most : {1, 8, 16, 32, 64, 128, 256, 320}) {
    if (rank <= most) return most;
  }
  return 512;
}

class VllmApi final : public EngineApi {
 public:
  std::string name() const override { return "vllm"; }
  ServerFlags flags() const override {
    return {.context = "--max-model-len",
            .raw_logprobs = "--logprobs-mode raw_logprobs",
            .processed_logprobs = "--logprobs-mode processed_logprobs"};
  }
  std::string caveat() const override { return ""; }
  std::vector<std::string> TokenizerFlags(const std::string& tokenizer_dir) const override {
    if (tokenizer_dir.empty()) return {"--skip-tokenizer-init"};
    return {"--tokenizer", tokenizer_dir};
  }
  std::vector<std::string> AdapterFlags(int64_t rank, int64_t held) const override {
    return {"--enable-lora",
            "--max-lora-rank",
            absl::StrCat(MaxLoraRank(rank)),
            "--max-loras",
            absl::StrCat(std::min<int64_t>(held + 1, 4)),
            "--max-cpu-loras",
            absl::StrCat(held + 3)};
  }

  absl::StatusOr<ServerRequest> Generate(const v1::GenerateRequest& request,
                                         const GenerateContext& context) const override {
    INGOT_RETURN_IF_ERROR(CheckSupported(request, context));
    INGOT_RETURN_IF_ERROR(CheckLogprobs(request, context.logprobs));
    object params;
    if (request.score_ids() > 0) {
      params = {{"temperature", 1}, {"max_tokens", 1}, {"logprobs", 0}, {"prompt_logprobs", 0}, {"detokenize", false}};
    } else {
      INGOT_ASSIGN_OR_RETURN(params, SamplingOf(request, context));
    }
    object body = {{"token_ids", array(request.prompt_ids().begin(), request.prompt_ids().end())},
                   {"sampling_params", std::move(params)},
                   {"stream", request.score_ids() == 0}};
    if (!context.salt.empty()) body["cache_salt"] = context.salt;
    if (!context.adapter.empty()) body["model"] = context.adapter;
    return ServerRequest{.path = "/inference/v1/generate", .body = base::PrintJson(body)};
  }

  // Raw log-probs are from before penalties and biases, and a grammar's mask comes before them.
  bool NeedsScoring(const v1::SamplingParams& sampling) const override { return sampling.has_grammar(); }

  absl::StatusOr<std::optional<AnswerEvent>> ReadEvent(std::string_view data) const override {
    if (data == "[DONE]") return std::nullopt;
    absl::StatusOr<value> json = base::ParseJson(data);
    if (!json.ok()) return Broken(std::string(json.status().message()));
    if (const value* error = base::Find(*json, "error"); error != nullptr && !error->is_null()) {
      // If a request is rejected after its head was sent, for example because the prompt is too long, the code is here.
      return StatusOf(ReadErrorStatus(base::Find(*error, "code"), 500), base::PrintJson(*error));
    }
    const value* choices = base::Find(*json, "choices");
    if (choices == nullptr || !choices->is_array()) return Broken("it has no choices");
    if (choices->get_array().empty()) return std::nullopt;  // the usage
    AnswerEvent event;
    INGOT_RETURN_IF_ERROR(ReadChoice(choices->get_array()[0], event));
    if (const value* id = base::Find(*json, "request_id"); id != nullptr && id->is_string()) {
      event.request_id = std::string(id->get_string());
    }
    return event;
  }

  absl::StatusOr<AnswerEvent> ReadScores(const v1::GenerateRequest& request, std::string_view body) const override {
    absl::StatusOr<value> json = base::ParseJson(body);
    if (!json.ok()) return Broken(std::string(json.status().message()));
    const value* scores = base::Find(*json, "prompt_logprobs");
    const value* choices = base::Find(*json, "choices");
    if (scores == nullptr || !scores->is_array() || std::ssize(scores->get_array()) != request.prompt_ids_size() ||
        choices == nullptr || !choices->is_array() || choices->get_array().empty()) {
      return Broken("it does not score the prompt");
    }
    AnswerEvent whole, event;
    INGOT_RETURN_IF_ERROR(ReadChoice(choices->get_array()[0], whole));
    for (int i = request.prompt_ids_size() - request.score_ids(); i < request.prompt_ids_size(); ++i) {
      const int32_t id = request.prompt_ids(i);
      const value* scored = base::Find(scores->get_array()[static_cast<size_t>(i)], absl::StrCat(id));
      const std::optional<double> logprob = scored == nullptr ? std::nullopt : Number(base::Find(*scored, "logprob"));
      if (!logprob.has_value()) return Broken("a prompt id has no log-prob");
      event.ids.push_back(id);
      event.logprobs.push_back(RecordedLogprob(*logprob));
      event.top_logprobs.emplace_back();
    }
    event.finish = ServerFinish::kStop;
    // The scored rows and the new token come from one request, which no swap may cross, so they share its span.
    if (whole.spans.size() == 1) event.spans = {{whole.spans[0].label, 0, request.score_ids()}};
    return event;
  }

  ServerRequest Abort(const std::string& server_request_id) const override {
    return {.path = "/inference/v1/abort_requests",
            .body = base::PrintJson(object{{"request_ids", array{server_request_id}}})};
  }

  absl::Status CheckSwap(SwapMode) const override { return absl::OkStatus(); }
  std::vector<ServerRequest> Pause(SwapMode mode) const override {
    switch (mode) {
      case SwapMode::kKeep:
        return {{.path = "/pause?mode=keep&clear_cache=false"}};
      case SwapMode::kRecompute:
        return {{.path = "/pause?mode=keep&clear_cache=true"}};
      case SwapMode::kDrain:
        return {{.path = "/pause?mode=wait&clear_cache=true"}};
      case SwapMode::kAbort:
        break;
    }
    return {{.path = "/pause?mode=abort&clear_cache=true"}};
  }
  ServerRequest Load(const std::string& model_dir) const override {
    return {
        .path = "/collective_rpc",
        .body = base::PrintJson(object{{"method", "reload_weights"}, {"kwargs", object{{"weights_path", model_dir}}}})};
  }
  ServerRequest SetLabel(const std::string& label) const override {
    return {.path = "/update_weight_version", .body = base::PrintJson(object{{"new_version", label}})};
  }
  ServerRequest Resume() const override { return {.path = "/resume"}; }
  ServerRequest LoadAdapter(const std::string& name, const std::string& adapter_dir) const override {
    return {.path = "/v1/load_lora_adapter",
            .body = base::PrintJson(object{{"lora_name", name}, {"lora_path", adapter_dir}, {"load_inplace", true}})};
  }
  ServerRequest UnloadAdapter(const std::string& name) const override {
    return {.path = "/v1/unload_lora_adapter", .body = base::PrintJson(object{{"lora_name", name}})};
  }
  ServerRequest Health() const override { return {.method = "GET", .path = "/health"}; }
  ServerRequest GetLabel() const override { return {.method = "GET", .path = "/weight_info"}; }
  absl::StatusOr<std::string> ReadLabel(std::string_view body) const override {
    const absl::StatusOr<value> json = base::ParseJson(body);
    const value* label = json.ok() ? base::Find(*json, "weight_version") : nullptr;
    if (label == nullptr || !label->is_string()) return Broken("/weight_info has no weight_version");
    return std::string(label->get_string());
  }
  ServerRequest Info() const override { return {.method = "GET", .path = "/v1/models"}; }
  absl::StatusOr<int64_t> ReadContextLength(std::string_view body, SwapMode) const override {
    const absl::StatusOr<value> json = base::ParseJson(body);
    const value* data = json.ok() ? base::Find(*json, "data") : nullptr;
    if (data == nullptr || !data->is_array() || data->get_array().empty()) return Broken("/v1/models lists no model");
    return Integer(base::Find(data->get_array()[0], "max_model_len")).value_or(0);
  }

  absl::Status StatusOf(int http_status, std::string_view body) const override {
    if (http_status >= 200 && http_status < 300) return absl::OkStatus();
    const std::string said = absl::StrCat("vllm answered ", http_status, ": ", base::Shown(std::string(body)));
    if (http_status == 403) {
      return absl::FailedPreconditionError(absl::StrCat(said, "; start it with --enable-scale-out"));
    }
    // The error is about an adapter that the server does not have, for example after a restart, not about a route.
    if (http_status == 404 && body.find("NotFoundError") != std::string_view::npos) {
      return absl::UnavailableError(said);
    }
    if (http_status == 404 || http_status == 405) {
      return absl::FailedPreconditionError(absl::StrCat(said,
                                                        "; start it with VLLM_SERVER_DEV_MODE=1, and for adapters "
                                                        "with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora"));
    }
    if (http_status == 401) {
      return absl::FailedPreconditionError(absl::StrCat(said, "; set rollout.external.api_key_file"));
    }
    if (http_status == 400 || http_status == 422) return absl::InvalidArgumentError(said);
    if (http_status == 429) return absl::ResourceExhaustedError(said);
    return absl::UnavailableError(said);
  }

 private:
  static absl::Status ReadChoice(const value& choice, AnswerEvent& event) {
    const value* ids = base::Find(choice, "token_ids");
    if (ids != nullptr && ids->is_array()) INGOT_RETURN_IF_ERROR(ReadIds(ids->get_array(), event));
    event.finish = ReadFinish(base::Find(choice, "finish_reason"));
    INGOT_RETURN_IF_ERROR(ReadLogprobs(choice, event));
    return ReadSpans(base::Find(choice, "weight_versions"), event);
  }
};

}  // namespace

std::unique_ptr<EngineApi> NewVllmApi() { return std::make_unique<VllmApi>(); }

}  // namespace ingot::engines
