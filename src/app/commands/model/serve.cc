// `ingot serve`: serves a model with only a gateway and an engine.
#include "app/commands/model/serve.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "app/cluster/access/grpc_server.h"
#include "app/commands/model/served_record.h"
#include "app/models/device.h"
#include "app/models/model_setup.h"
#include "app/models/snapshots.h"
#include "app/record/metrics_endpoint.h"
#include "app/roles/assembly.h"
#include "app/run/process.h"
#include "app/run/threads.h"
#include "base/config.h"
#include "base/json.h"
#include "base/log.h"
#include "base/secret.h"
#include "gateway/http/http_server.h"
#include "rollout/engine/service.h"
#include "text/chat/template_variables.h"

namespace ingot::app {
namespace {

// Returns the model's context length, limited so that every possible request fits in the KV cache.
int32_t ContextOf(const model::ModelConfig& shape, const rollout::EngineOptions& options) {
  const int64_t room = options.kv_cache_tokens / options.kv_block_tokens * options.kv_block_tokens;
  return static_cast<int32_t>(std::min(shape.max_position_embeddings, room));
}

struct ServedModel {
  ModelSetup setup;
  std::shared_ptr<rollout::Engine> engine;
};

absl::StatusOr<ServedModel> LoadModel(const std::string& dir, const ServeArgs& args, rollout::EngineOptions options,
                                      const DeviceChoice& device) {
  ModelOptions folder;
  folder.path = dir;
  folder.chat_format = args.chat_format;
  folder.chat_template = args.chat_template;
  ServedModel model;
  INGOT_ASSIGN_OR_RETURN(model.setup, SetUpModel(folder, device.torch_name));
  options.context_length = ContextOf(model.setup.shape, options);
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> snapshot, LoadSnapshot(dir, 0));
  INGOT_ASSIGN_OR_RETURN(model.engine, MakeEngine(options, model.setup, snapshot));
  return model;
}

// Adds the other models, each with its own engine, which is also added to `served`.
absl::Status AddModels(const ServeArgs& args, const ServedModel& first, const rollout::EngineOptions& options,
                       const DeviceChoice& device, gateway::GatewayOptions& gateway_options, RoleClients& clients,
                       std::vector<std::shared_ptr<rollout::ServedEngine>>& served) {
  for (const std::string& also : args.also) {
    const size_t equals = also.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == also.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--also ", also, ": NAME=DIR is expected"));
    }
    const std::string name = also.substr(0, equals), dir = also.substr(equals + 1);
    auto model = LoadModel(dir, args, options, device);
    if (!model.ok()) return base::Annotate(model.status(), "--also " + also);
    if (model->setup.text.tokenizer->fingerprint() != first.setup.text.tokenizer->fingerprint()) {
      return absl::InvalidArgumentError(absl::StrCat("--also ", also, ": its tokenizer differs from that of ",
                                                     args.model_dir, ": serve it in a separate process"));
    }
    gateway_options.models.push_back(
        {.name = name, .weights = gateway::ModelWeights::kExternal, .version = 0, .address = dir});
    clients.external[name] = model->engine;
    served.push_back(model->engine);
  }
  return absl::OkStatus();
}

// Adds the adapters. Each is a separate version in the model's engine and shares the base's memory.
absl::Status AddServedAdapters(const ServeArgs& args, const ServedModel& model,
                               gateway::GatewayOptions& gateway_options) {
  for (size_t i = 0; i < args.adapters.size(); ++i) {
    const std::string& adapter = args.adapters[i];
    const size_t equals = adapter.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == adapter.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--adapter ", adapter, ": NAME=DIR is expected"));
    }
    const auto version = static_cast<int64_t>(i) + 1;
    const auto snapshot = WithAdapter(model.engine->newest(), model.setup.shape, adapter.substr(equals + 1), version);
    const absl::Status held = snapshot.ok() ? model.engine->Hold(*snapshot) : snapshot.status();
    if (!held.ok()) return base::Annotate(held, "--adapter " + adapter);
    gateway_options.models.push_back({.name = adapter.substr(0, equals),
                                      .weights = gateway::ModelWeights::kPinned,
                                      .version = version,
                                      .address = ""});
  }
  return absl::OkStatus();
}

// Waits until the process is stopped, or until one of the engines cannot serve any more. Returns that engine's fault.
absl::Status WaitForStopOrFault(const std::vector<std::shared_ptr<rollout::ServedEngine>>& served) {
  while (!StopFlag()) {
    for (const auto& engine : served) INGOT_RETURN_IF_ERROR(engine->fault());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return absl::OkStatus();
}

// Returns the variables from --template-variable.
absl::StatusOr<base::json::object> TemplateVariables(const ServeArgs& args) {
  constexpr char kFlag[] = "--template-variable";
  base::json::object variables;
  for (const std::string& given : args.template_variables) {
    const size_t equals = given.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(kFlag, " ", given, ": NAME=VALUE is expected"));
    }
    const std::string name = given.substr(0, equals);
    absl::StatusOr<base::json::value> value = base::WordValue(given.substr(equals + 1));
    if (!value.ok()) return base::Annotate(value.status(), absl::StrCat(kFlag, " ", name));
    if (!variables.emplace(name, *std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat(kFlag, " ", name, ": given twice"));
    }
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(text::CheckTemplateVariables(variables), kFlag));
  return variables;
}

// Returns the access for clients of --rollout-port; nullopt = no port.
absl::StatusOr<std::optional<RpcAccess>> TokensAccess(const ServeArgs& args) {
  if (args.rollout_port < 0) return std::nullopt;
  if (args.token_file.empty()) {
    return absl::InvalidArgumentError(
        "--rollout-port needs a token for its clients: create a file (`openssl rand -hex 32 > FILE; chmod 600 FILE`), "
        "name it in --token-file, and name a copy in token_file of the clients' gateway.models");
  }
  absl::StatusOr<std::string> token = base::ReadSecret(args.token_file);
  if (!token.ok()) return base::Annotate(token.status(), "--token-file");
  ClusterOptions options;
  options.tls_certificate = args.tls_certificate;
  options.tls_key = args.tls_key;
  options.allow_plaintext = args.allow_plaintext;
  return AccessOf(options, *std::move(token));
}

absl::StatusOr<std::unique_ptr<GrpcServer>> ServeTokens(const ServeArgs& args, const RpcAccess& access,
                                                        rollout::Engine& engine) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(rollout::NewRolloutService(engine, std::nullopt));
  return GrpcServer::Start(absl::StrCat(args.host, ":", args.rollout_port), std::move(services), access);
}

absl::StatusOr<int> ServeOrError(const ServeArgs& args) {
  base::InitLogging("serve", "info", "");
  INGOT_ASSIGN_OR_RETURN(const std::optional<RpcAccess> access, TokensAccess(args));
  gateway::GatewayOptions gateway_options;
  INGOT_ASSIGN_OR_RETURN(gateway_options.template_variables, TemplateVariables(args));
  rollout::EngineOptions options;
  options.threads = args.threads > 0 ? args.threads : static_cast<int>(std::thread::hardware_concurrency());
  const int engines = 1 + static_cast<int>(args.also.size());
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOfServing(engines, options.threads)));
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(args.device));
  if (device.fell_back) INGOT_LOG(info, "device auto: cpu, {}", device.description);
  options.kv_cache_tokens = args.kv_cache_tokens;
  options.max_retained_versions = std::max(options.max_retained_versions, static_cast<int32_t>(args.adapters.size()));
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(const ServedModel model, LoadModel(args.model_dir, args, options, device));

  gateway_options.any_model_name = args.any_model_name;
  gateway_options.session_per_conversation = true;
  gateway_options.max_open_episodes = gateway_options.max_active_calls;  // each call may start a conversation
  gateway_options.model_name = args.model_name;
  if (gateway_options.model_name.empty()) {
    gateway_options.model_name = std::filesystem::absolute(args.model_dir + "/").parent_path().filename().string();
  }
  // Without a limit, an answer may be as long as the model's context allows.
  gateway_options.max_new_tokens = args.max_tokens > 0 ? args.max_tokens : std::numeric_limits<int32_t>::max();
  RoleClients clients;
  clients.engine = model.engine;
  std::vector<std::shared_ptr<rollout::ServedEngine>> served{model.engine};
  INGOT_RETURN_IF_ERROR(AddServedAdapters(args, model, gateway_options));
  INGOT_RETURN_IF_ERROR(AddModels(args, model, options, device, gateway_options, clients, served));
  gateway::GatewayParts parts;
  parts.vocab_size = static_cast<int32_t>(model.setup.shape.vocab_size);
  if (!args.script.empty()) {
    INGOT_ASSIGN_OR_RETURN(parts.script, LoadScript(args.script, model.setup.text));
  }
  std::unique_ptr<ServedRecord> record;
  if (!args.record.empty()) {
    INGOT_ASSIGN_OR_RETURN(record, ServedRecord::Open(args.record, args.model_dir, args.chat_format, args.chat_template,
                                                      model.setup.text));
    clients.pool = record->pool();
    clients.engine = record->RecordRequests(clients.engine);
    for (auto& [name, engine] : clients.external) engine = record->RecordRequests(engine);
  }
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::Gateway> gateway,
                         MakeGateway(gateway_options, clients, model.setup.text, parts));
  http::Options http_options;
  http_options.host = args.host;
  http_options.port = args.port;
  http_options.tls_certificate = args.tls_certificate;
  http_options.tls_key = args.tls_key;
  http_options.allow_plaintext = args.allow_plaintext;
  http_options.allow_hosts = args.allow_hosts;
  http_options.allow_origins = args.allow_origins;
  auto started = gateway::HttpServer::Start(http_options, *gateway);
  if (absl::IsFailedPrecondition(started.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--host ", args.host,
        " can be reached from other machines: add --tls-certificate and --tls-key, or, on a private network, ",
        "--allow-plaintext"));
  }
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::HttpServer> http, std::move(started));
  std::unique_ptr<MetricsEndpoint> metrics;
  if (!args.metrics_socket.empty()) {
    INGOT_ASSIGN_OR_RETURN(metrics,
                           MetricsEndpoint::OnSocket(args.metrics_socket, [&] { return gateway->MetricsText(); }));
  }
  std::unique_ptr<GrpcServer> tokens;
  if (access.has_value()) {
    INGOT_ASSIGN_OR_RETURN(tokens, ServeTokens(args, *access, *model.engine));
  }
  std::printf("serving %s (%.1fM parameters, a context of %d tokens, %d threads, %s) at %s/v1",
              gateway_options.model_name.c_str(), static_cast<double>(model.setup.shape.ParameterCount()) * 1e-6,
              ContextOf(model.setup.shape, options), options.threads, device.torch_name.c_str(), http->url().c_str());
  for (const gateway::ModelOptions& also : gateway_options.models) std::printf(", also %s", also.name.c_str());
  if (tokens != nullptr) std::printf(", token ids at %s:%d", args.host.c_str(), tokens->port());
  std::printf("\n");
  std::fflush(stdout);
  const absl::Status fault = WaitForStopOrFault(served);
  http->Stop();
  gateway->Shutdown();
  gateway->EndSessions();
  tokens.reset();
  if (record != nullptr) INGOT_RETURN_IF_ERROR(record->WriteCalls());
  INGOT_RETURN_IF_ERROR(fault);
  return 0;
}

}  // namespace

int Serve(const ServeArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = ServeOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
