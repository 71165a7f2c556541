#include "app/checks/machine_check.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "app/checks/nodes_check.h"
#include "app/cluster/access/grpc_access.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/run_roles.h"
#include "app/models/device.h"
#include "app/run/run_dir.h"
#include "app/run/threads.h"
#include "gateway/http/http_server.h"
#include "gateway/options.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

// Returns INVALID_ARGUMENT if this process cannot create folders in run.root.
absl::Status CheckRoot(const std::string& root) {
  fs::path folder = fs::absolute(root).lexically_normal();
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  std::string probe = (folder / ".ingot-check-XXXXXX").string();
  if (mkdtemp(probe.data()) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("run.root is '", root, "': cannot create a folder in '",
                                                   folder.string(), "': ", std::strerror(errno)));
  }
  fs::remove(probe, error);
  return absl::OkStatus();
}

// Checks whether roles may listen at cluster.host, using only the configuration keys.
absl::Status CheckClusterHost(const ClusterOptions& cluster) {
  RpcAccess access;
  access.allow_plaintext = cluster.allow_plaintext;
  access.certificate = cluster.tls_certificate;  // only whether there is one
  return base::Annotate(CheckReach(OwnHost(cluster), access), "cluster");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckOtherMachine(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(CheckRunName(config.name));
  INGOT_RETURN_IF_ERROR(gateway::CheckListening(config.http));
  INGOT_RETURN_IF_ERROR(CheckClusterHost(config.cluster));
  return std::vector<std::string>{
      absl::StrCat("run.root, device, compute.threads, and files with keys and certificates are not checked, because "
                   "they belong to ",
                   NodesOf(config.cluster) > 1 ? "each of the run's nodes" : "the run's machine")};
}

absl::StatusOr<std::vector<std::string>> CheckMachine(const RunConfig& config) {
  INGOT_ASSIGN_OR_RETURN(std::vector<std::string> skipped, CheckOtherMachine(config));
  if (NodesOf(config.cluster) > 1) return skipped;
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  INGOT_RETURN_IF_ERROR(OpenDevice(config.device).status());
  INGOT_RETURN_IF_ERROR(CheckRoot(config.root));
  INGOT_RETURN_IF_ERROR(gateway::CheckTlsFiles(config.http));
  INGOT_RETURN_IF_ERROR(base::Annotate(gateway::ReadAdminKey(config.gateway).status(), "gateway"));
  if (config.cluster.host != "auto" && !IsLoopback(config.cluster.host)) {
    return std::vector<std::string>{absl::StrCat("the files of cluster.token_file and cluster.tls are not checked: ",
                                                 config.cluster.host, " may be another machine")};
  }
  INGOT_RETURN_IF_ERROR(FindRunSecrets(config).status());
  INGOT_RETURN_IF_ERROR(AccessOf(config.cluster, "").status());
  return std::vector<std::string>();
}

}  // namespace ingot::app
