#include "gateway/options.h"

#include <algorithm>
#include <set>

#include "base/config.h"
#include "base/secret.h"
#include "text/chat/template_variables.h"

namespace ingot::gateway {
namespace {

absl::Status ValidateModels(const GatewayOptions& options) {
  std::set<std::string> names = {options.model_name};
  for (size_t i = 0; i < options.models.size(); ++i) {
    const ModelOptions& model = options.models[i];
    const auto fault = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("models[", i, "] ('", model.name, "'): ", what));
    };
    if (model.name.empty()) return fault("it has no name");
    if (!names.insert(model.name).second) return fault("another model has this name");
    const bool external = model.weights == ModelWeights::kExternal;
    if (external != (model.address.empty() == !model.url.empty()) || (!external && !model.url.empty())) {
      return fault("external weights, and only they, need an address, e.g. 10.0.0.7:7410, or a url");
    }
    const bool text_fields = !model.served_model.empty() || !model.key_file.empty() || model.stream;
    if (model.url.empty() && text_fields) return fault("served_model, key_file and stream are for a url");
    if (!model.url.empty() && !model.url.starts_with("http://") && !model.url.starts_with("https://")) {
      return fault(absl::StrCat("url is '", model.url, "': it begins with http:// or https://"));
    }
    if (model.address.empty() && (!model.token_file.empty() || !model.ca.empty())) {
      return fault("token_file and ca are for external weights with an address");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Bind(base::Schema& schema, ModelOptions& o) {
  schema.Field("name", &o.name, "name in the requests of clients");
  schema.Choice(
      "weights", &o.weights, {"follow", "pinned", "external"},
      "follow: the trained weights; pinned: one version, which the engines retain; external: another server's");
  schema.Field("version", &o.version, "pinned: the version", base::NotNegative());
  schema.Field("address", &o.address, "external: host:port of a rollout role with this run's tokenizer; or else a url");
  schema.Field(
      "url", &o.url,
      "external: base URL of a server of OpenAI's chat completions; its answers are text, which is encoded here");
  schema.Field("served_model", &o.served_model, "url: the model's name there; empty: name");
  schema.Field("key_file", &o.key_file, "url: file with its bearer key");
  schema.Field("stream", &o.stream, "url: ask for a stream of server-sent events");
  schema.Field("timeout_s", &o.timeout_s, "url: seconds of one request", base::LeftOpen(0, 86400));
  schema.Field("concurrency", &o.concurrency, "url: requests at a time", base::InRange(1, 1024));
  schema.Field(
      "token_file", &o.token_file,
      "external: file with the token that the role requires: its run's cluster.token_file, or `ingot serve`'s");
  schema.Field("ca", &o.ca, "external: PEM file; the role speaks TLS, and its certificate is verified against this");
}

void Bind(base::Schema& schema, SamplingPin& o) {
  schema.Field("temperature", &o.temperature, "replaces the client's value; training: > 0", base::NotNegative());
  schema.Field("top_p", &o.top_p, "1: off", base::Fraction());
  schema.Field("top_k", &o.top_k, "0: off", base::NotNegative());
  schema.Field("min_p", &o.min_p, "0: off", base::RightOpen(0, 1));
}

void Bind(base::Schema& schema, GatewayOptions& o) {
  for (const char* removed : {"max_remembered_ends", "session_idle_s", "retry_after_s"}) schema.Renamed(removed, "");
  schema.Field("model_name", &o.model_name, "first model of /v1/models; follows training");
  schema.List("models", &o.models,
              "more models by name; calls to models that do not follow training are not trained on");
  schema.Field(
      "any_model_name", &o.any_model_name,
      "answer a request that names an unlisted model with gateway.model_name; false: a 404 that lists the names");
  schema.Section("train_sampling", o.train_sampling);
  schema.Section("eval_sampling", o.eval_sampling);
  schema.Field("max_new_tokens", &o.max_new_tokens, "greatest number of tokens sampled per call", base::Positive());
  schema.Field("default_max_tokens", &o.default_max_tokens,
               "tokens for a call whose client names no limit; 0: gateway.max_new_tokens", base::NotNegative());
  schema.Field("max_active_calls", &o.max_active_calls, "calls in flight; beyond: 429", base::Positive());
  schema.Field("max_open_episodes", &o.max_open_episodes, "episodes and served sessions held; beyond: 429",
               base::Positive());
  schema.Field("max_calls_per_episode", &o.max_calls_per_episode, "beyond: 400, which no client tries again",
               base::Positive());
  schema.Field("max_tokens_per_episode", &o.max_tokens_per_episode,
               "tokens of an episode's calls, prompts counted whole; beyond: the same; 0: no limit",
               base::NotNegative());
  schema.Field("max_tokens_per_session", &o.max_tokens_per_session,
               "tokens in the history of a served session, shared ones once; then it begins a new one",
               base::Positive());
  schema.Field("episode_deadline_s", &o.episode_deadline_s, "seconds from an episode's opening until it fails; 0: none",
               base::NotNegative());
  schema.Field("call_deadline_s", &o.call_deadline_s, "seconds from arrival to the last token; 0: none",
               base::NotNegative());
  schema.Field("episode_idle_s", &o.episode_idle_s, "seconds without a call until an episode fails; 0: never",
               base::NotNegative());
  schema.Field(
      "episode_first_call_s", &o.episode_first_call_s,
      "seconds without a first call until an episode ends that was opened over HTTP; 0: no limit; no effect on "
      "agents.recipes",
      base::NotNegative());
  schema.Field("end_wait_s", &o.end_wait_s, "seconds that ending an episode waits for its aborted calls",
               base::Positive());
  schema.Choice("history_thinking", &o.history_thinking, {"template", "keep"},
                "reasoning of earlier turns that the chat template leaves out: left out of the context, or kept in it");
  schema.Field("template_variables", &o.template_variables,
               "variables of the chat template for all requests, data.sft and data.dpo, such as {enable_thinking: "
               "false}; a client's or a line's own win");
  schema.Field("auto_episodes", &o.auto_episodes,
               "an unknown API key opens a session, recorded and not trained on, instead of 401");
  schema.Field(
      "admin_key_file", &o.admin_key_file,
      "file with the key that opens episodes, and rewards and ends any; empty: only this run's agents.recipes open "
      "them, or any client if there are none");
  schema.Field("worker_threads", &o.worker_threads, "threads for parsing, rendering and admission", base::Positive());
  schema.Field("writer_threads", &o.writer_threads, "calls that are recorded at a time, sharing the pool's fsyncs",
               base::Positive());
  schema.Field("max_queued_work", &o.max_queued_work, "requests waiting for a worker; beyond: 503", base::Positive());
  schema.Field("public_url", &o.public_url,
               "address given to agents; empty: the one listened on, by cluster.host where http.host is 0.0.0.0");
}

void BindEvaluation(base::Schema& schema, GatewayOptions& o) {
  schema.Field("max_new_tokens", &o.eval_max_new_tokens,
               "greatest number of tokens sampled per call of an evaluation; 0: gateway.max_new_tokens",
               base::NotNegative());
}

bool PinsVersion(const GatewayOptions& options, int64_t version) {
  return std::any_of(options.models.begin(), options.models.end(), [version](const ModelOptions& model) {
    return model.weights == ModelWeights::kPinned && model.version == version;
  });
}

absl::StatusOr<std::string> ReadAdminKey(const GatewayOptions& options) {
  if (options.admin_key_file.empty()) return std::string();
  absl::StatusOr<std::string> key = base::ReadSecret(options.admin_key_file);
  return key.ok() ? std::move(key) : base::Annotate(key.status(), "admin_key_file");
}

absl::Status GatewayOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this, BindEvaluation), "evaluation"));
  if (model_name.empty()) return absl::InvalidArgumentError("model_name is empty");
  INGOT_RETURN_IF_ERROR(ValidateModels(*this));
  if (train_sampling.temperature == 0) {
    return absl::InvalidArgumentError(
        "train_sampling.temperature is 0: greedy sampling has no gradient; training needs a temperature greater than "
        "0");
  }
  return base::Annotate(text::CheckTemplateVariables(template_variables), "template_variables");
}

}  // namespace ingot::gateway
