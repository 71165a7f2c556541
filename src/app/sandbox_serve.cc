#include "app/sandbox_serve.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "agents/options.h"
#include "app/process.h"
#include "base/clock.h"
#include "base/process_memory.h"
#include "base/secret.h"
#include "execution/service.h"
#include "http/server.h"

namespace ingot::app {
namespace {

absl::Status Serve(const SandboxServeArgs& args) {
  if (args.slots < 1 || args.sessions < 0 || args.session_idle_s <= 0 || args.session_memory_mib < 1) {
    return absl::InvalidArgumentError(
        "--slots and --session-memory are at least 1, --sessions at least 0, --session-idle above 0");
  }
  execution::ServiceOptions options;
  options.slots = args.slots;
  options.store.sessions = args.sessions;
  options.store.idle = base::FromSeconds(args.session_idle_s);
  options.store.session_bytes = args.session_memory_mib << 20;
  options.store.memory_bytes = args.memory_mib < 0 ? base::AvailableMemory() / 4 * 3 : args.memory_mib << 20;
  if (!args.key_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(options.key, base::ReadSecret(args.key_file));
  } else if (args.http.host != "127.0.0.1" && args.http.host != "::1") {
    return absl::InvalidArgumentError(
        "an address that other machines reach needs --key-file: the service executes code");
  }
  sandbox::SubstrateOptions sandbox = args.sandbox;
  sandbox.work_root = agents::DefaultWorkRoot();
  sandbox.rung = "auto";
  options.images = args.store.empty() ? sandbox.work_root + "/images" : args.store;
  sandbox.images = options.images;
  if (sandbox.pool < 0) sandbox.pool = std::max(2, args.slots);
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Substrate> substrate, sandbox::MakeSubstrate(sandbox));
  std::printf("sandbox: %s\n", substrate->grant().Describe().c_str());
  execution::Service service(std::move(substrate), options);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<http::Server> server, http::Server::Listen(args.http, service));
  server->Serve();
  HandleSignals();
  std::printf("sandbox: listening on %s\n", server->url().c_str());
  std::fflush(stdout);
  for (int beat = 0; !StopFlag(); ++beat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    service.RemoveEnded();
  }
  server->Stop();
  return absl::OkStatus();
}

}  // namespace

int SandboxServe(const SandboxServeArgs& args) {
  const absl::Status status = Serve(args);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
