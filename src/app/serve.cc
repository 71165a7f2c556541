// `ingot serve`: gateway and engine alone, as one would serve a model.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "app/commands.h"
#include "app/device.h"
#include "app/model_setup.h"
#include "app/process.h"
#include "app/snapshots.h"
#include "base/log.h"
#include "gateway/http_server.h"
#include "rollout/engine.h"
#include "rollout/torch_runner.h"

namespace ingot::app {
namespace {

absl::StatusOr<std::shared_ptr<gateway::ScriptedModel>> LoadScript(const std::string& path, const TextParts& text) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the script '", path, "': ", std::strerror(errno)));
  const std::string lines{std::istreambuf_iterator<char>(file), {}};
  auto script = gateway::ScriptedModel::Parse(lines, *text.tokenizer, *text.format);
  if (!script.ok()) return base::Annotate(script.status(), path);
  return script;
}

absl::StatusOr<int> ServeOrError(const ServeArgs& args) {
  base::InitLogging("serve", "info", "");
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(args.device));
  INGOT_ASSIGN_OR_RETURN(const TextParts text, LoadTextParts(args.model_dir, args.chat_format));
  INGOT_ASSIGN_OR_RETURN(const model::ModelConfig shape, model::ModelConfig::FromFile(args.model_dir + "/config.json"));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> snapshot, LoadSnapshot(args.model_dir, 0));

  rollout::EngineOptions options;
  options.threads = args.threads > 0 ? args.threads : static_cast<int>(std::thread::hardware_concurrency());
  rollout::Engine::Parts parts;
  INGOT_ASSIGN_OR_RETURN(parts.runner, rollout::NewTorchRunner(shape, options, device.torch_name));
  parts.tokenizer = text.tokenizer;
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<rollout::Engine> engine,
                         rollout::Engine::Create(options, std::move(parts), snapshot));

  gateway::GatewayOptions gateway_options;
  gateway_options.model_name = args.model_name;
  if (gateway_options.model_name.empty()) {
    gateway_options.model_name = std::filesystem::absolute(args.model_dir + "/").parent_path().filename().string();
  }
  gateway::GatewayParts gateway_parts;
  gateway_parts.engine = engine;
  gateway_parts.tokenizer = text.tokenizer;
  gateway_parts.format = text.format;
  if (!args.script.empty()) {
    INGOT_ASSIGN_OR_RETURN(gateway_parts.script, LoadScript(args.script, text));
  }
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::Gateway> gateway,
                         gateway::Gateway::Create(gateway_options, gateway_parts));
  gateway::HttpServerOptions http_options;
  http_options.host = args.host;
  http_options.port = args.port;
  http_options.tls_certificate = args.tls_certificate;
  http_options.tls_key = args.tls_key;
  http_options.allow_plaintext = args.allow_plaintext;
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::HttpServer> http,
                         gateway::HttpServer::Start(http_options, *gateway));
  std::printf("serving %s (%.1fM parameters, %d threads, %s) at %s/v1\n", gateway_options.model_name.c_str(),
              static_cast<double>(shape.ParameterCount()) * 1e-6, options.threads, device.torch_name.c_str(),
              http->url().c_str());
  std::fflush(stdout);
  while (!StopFlag()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  http->Stop();
  gateway->Shutdown();
  return 0;
}

}  // namespace

int Serve(const ServeArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = ServeOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
