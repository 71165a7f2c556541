#include "app/checks/machine_check.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "app/checks/nodes_check.h"
#include "app/cluster/access/grpc_access.h"
#include "app/cluster/access/run_secrets.h"
#include "app/models/device.h"
#include "app/run/run_dir.h"
#include "app/run/threads.h"
#include "gateway/http/http_server.h"
#include "gateway/options.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

// INVALID_ARGUMENT: run.root is no folder that this process can make folders in.
absl::Status CheckRoot(const std::string& root) {
  fs::path folder = fs::absolute(root).lexically_normal();
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  std::string probe = (folder / ".ingot-check-XXXXXX").string();
  if (mkdtemp(probe.data()) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("run.root is '", root, "': no folder can be made in '",
                                                   folder.string(), "': ", std::strerror(errno)));
  }
  fs::remove(probe, error);
  return absl::OkStatus();
}

// The keys of roles that run only under `ingot launch` and `ingot node`.
absl::Status CheckAccess(const RunConfig& config) {
  if (!config.cluster.token_file.empty()) INGOT_RETURN_IF_ERROR(FindRunSecrets(config).status());
  INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config.cluster, ""));
  return base::Annotate(CheckReach(config.cluster.host, access), "cluster");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckMachine(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(CheckRunName(config.name));
  INGOT_RETURN_IF_ERROR(gateway::CheckListening(config.http));
  if (NodesOf(config.cluster) > 1) {
    INGOT_RETURN_IF_ERROR(CheckAccess(config));
    return std::vector<std::string>{
        "run.root, device, compute.threads and gateway.admin_key_file are not checked: each of the run's nodes has its "
        "own"};
  }
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  INGOT_RETURN_IF_ERROR(OpenDevice(config.device).status());
  INGOT_RETURN_IF_ERROR(CheckRoot(config.root));
  INGOT_RETURN_IF_ERROR(base::Annotate(gateway::ReadAdminKey(config.gateway).status(), "gateway"));
  INGOT_RETURN_IF_ERROR(CheckAccess(config));
  return std::vector<std::string>();
}

}  // namespace ingot::app
