#include "app/commands/sandbox/sandbox_serve.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "agents/options.h"
#include "app/run/process.h"
#include "base/clock.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "base/secret.h"
#include "execution/service.h"
#include "http/server.h"

namespace ingot::app {
namespace {

// Returns an empty path if clients need no key.
absl::StatusOr<std::string> KeyFileOf(const SandboxServeArgs& args) {
  if (!args.no_key) return args.key_file.empty() ? DefaultKeyFile() : args.key_file;
  if (!args.key_file.empty()) return absl::InvalidArgumentError("use either --key-file or --no-key, not both");
  if (args.http.host.starts_with("127.") || args.http.host == "::1") return std::string();
  return absl::InvalidArgumentError(
      absl::StrCat("--no-key: the address ", args.http.host,
                   " can be reached from other machines, and this service executes code: use --key-file"));
}

absl::Status Unmade(const std::string& path, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot create the key file ", path, ": ", why, "; name another file with --key-file"));
}

absl::Status Serve(const SandboxServeArgs& args) {
  if (args.slots < 1 || args.sessions < 0 || args.session_idle_s <= 0 || args.session_memory_mib < 1) {
    return absl::InvalidArgumentError(
        "--slots and --session-memory must be at least 1, --sessions at least 0, and --session-idle above 0");
  }
  execution::ServiceOptions options;
  options.slots = args.slots;
  options.store.sessions = args.sessions;
  options.store.idle = base::FromSeconds(args.session_idle_s);
  options.store.session_bytes = args.session_memory_mib << 20;
  options.store.memory_bytes = args.memory_mib < 0 ? base::AvailableMemory() / 4 * 3 : args.memory_mib << 20;
  INGOT_ASSIGN_OR_RETURN(const std::string key_file, KeyFileOf(args));
  if (!key_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(options.key, args.key_file.empty() ? ReadOrMakeKey(key_file) : base::ReadSecret(key_file));
  }
  sandbox::SubstrateOptions sandbox = args.sandbox;
  if (!key_file.empty()) sandbox.hidden.push_back(std::filesystem::absolute(key_file));
  sandbox.work_root = agents::DefaultWorkRoot();
  sandbox.isolation = "auto";
  options.images = args.store.empty() ? sandbox.work_root + "/images" : args.store;
  options.image_folders = args.image_folders;
  sandbox.images = options.images;
  if (sandbox.pool < 0) sandbox.pool = std::max(2, args.slots);
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Substrate> substrate, sandbox::MakeSubstrate(sandbox));
  std::printf("sandbox: %s\n", substrate->probe_result().Describe().c_str());
  execution::Service service(std::move(substrate), options);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<http::Server> server, http::Server::Listen(args.http, service));
  server->Serve();
  HandleSignals();
  if (key_file.empty()) {
    std::printf("sandbox: clients need no key, so anyone who can reach the address can execute code\n");
  } else {
    std::printf("sandbox: clients send the key in %s as Authorization: Bearer or X-API-Key\n", key_file.c_str());
  }
  std::printf("sandbox: listening on %s\n", server->url().c_str());
  std::fflush(stdout);
  while (!StopFlag()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    service.RemoveEnded();
  }
  server->Stop();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> DefaultKeyFile() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return absl::StrCat(state, "/ingot/sandbox.key");
  if (home != nullptr && *home == '/') return absl::StrCat(home, "/.local/state/ingot/sandbox.key");
  return absl::FailedPreconditionError("HOME is not set, so there is no default key file: use --key-file or --no-key");
}

absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error)) return base::ReadSecret(path);
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return Unmade(path, error.message());
  // Written under another name first, so that no process reads an incomplete key.
  const std::string made = absl::StrCat(path, ".", base::RandomHex(8));
  const int fd = open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Unmade(path, std::strerror(errno));
  const std::string text = base::RandomHex(32) + "\n";
  const bool is_whole = write(fd, text.data(), text.size()) == std::ssize(text) && fsync(fd) == 0;
  int failed = is_whole ? 0 : errno;
  close(fd);
  if (failed == 0 && link(made.c_str(), path.c_str()) != 0 && errno != EEXIST) failed = errno;
  unlink(made.c_str());
  if (failed != 0) return Unmade(path, std::strerror(failed));
  return base::ReadSecret(path);
}

int SandboxServe(const SandboxServeArgs& args) {
  const absl::Status status = Serve(args);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace ingot::app
