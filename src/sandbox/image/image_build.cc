#include "sandbox/image/image_build.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "sandbox/egress/egress_proxy.h"
#include "sandbox/image/build_messages.h"
#include "sandbox/image/build_sandbox.h"
#include "sandbox/trees/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr char kPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Creates the build's scratch folder with a copy of the context. The copy belongs to the sandbox, because the original
// files' uids have no meaning in the sandbox. Links are copied as links, which cannot lead to the machine's files
// there.
absl::StatusOr<std::string> MakeScratch(const std::string& folder, uint32_t owner, const ImageTools& tools) {
  const std::string scratch = tools.folder() + "/build";
  std::error_code error;
  for (const char* const part : {"/context", "/home", "/run", "/storage", "/tmp", "/var"}) {
    fs::create_directories(scratch + part, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot make ", scratch, part, ": ", error.message()));
  }
  INGOT_RETURN_IF_ERROR(tools.Run({"cp", "-a", "--reflink=auto", folder + "/.", scratch + "/context"}).status());
  INGOT_RETURN_IF_ERROR(tools.Run({"chown", "-hR", absl::StrCat(owner, ":", owner), scratch}).status());
  // Makes the modes independent of the context's mode and this process's umask.
  for (const char* const part : {"", "/context", "/home", "/run", "/storage", "/var"})
    chmod((scratch + part).c_str(), 0755);
  chmod((scratch + "/tmp").c_str(), 01777);
  return scratch;
}

absl::StatusOr<BuildProgram> BuildahOf(const std::string& scratch) {
  const Command named{.argv = {"buildah"}, .env = InheritedEnvironment({"PATH"}), .working_dir = "", .stdin_text = ""};
  const auto found = FindProgram(named);
  if (!found.ok()) {
    return base::Annotate(found.status(), "Dockerfiles need buildah (scripts/setup.sh services installs it)");
  }
  const std::string inside = kBuildScratch;
  BuildProgram program{.argv = {fs::absolute(*found).string(), "--storage-driver", "vfs", "--root", inside + "/storage",
                                "--runroot", inside + "/run", "bud", "--isolation", "chroot", "--tag",
                                "oci-archive:" + inside + "/built.tar", inside + "/context"},
                       .variables = {absl::StrCat("PATH=", kPath), "HOME=" + inside + "/home", "TMPDIR=/tmp",
                                     "XDG_RUNTIME_DIR=" + inside + "/run",
                                     // The uids are already set up.
                                     "_CONTAINERS_USERNS_CONFIGURED=1", "BUILDAH_ISOLATION=chroot"},
                       .scratch = scratch,
                       .visible = {}};
  program.visible.push_back(program.argv[0]);
  if (const char* const file = std::getenv("SSL_CERT_FILE"); file != nullptr && file[0] == '/') {
    program.variables.push_back(absl::StrCat("SSL_CERT_FILE=", file));
    program.visible.emplace_back(file);
  }
  return program;
}

// Moves the archive to where the sandbox cannot reach it. The build may have put anything in its place.
absl::StatusOr<std::string> TakeArchive(const std::string& scratch, const ImageTools& tools) {
  const std::string built = scratch + "/built.tar", archive = tools.folder() + "/built.tar";
  struct stat info;
  if (lstat(built.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return absl::InvalidArgumentError("buildah did not write an archive of the image");
  if (rename(built.c_str(), archive.c_str()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot take ", built));
  INGOT_RETURN_IF_ERROR(RemoveTree(scratch));  // frees space for unpacking
  return "oci-archive:" + archive;
}

// Returns a message that lists the hosts that the build was denied or could not reach; empty = none.
std::string DescribeUnreached(const EgressProxy& proxy) {
  const std::vector<std::string> rejected = proxy.Rejected(), unreached = proxy.Unreached();
  std::string text;
  if (!rejected.empty()) {
    text = absl::StrCat("it tried to reach ", absl::StrJoin(rejected, ", "),
                        ", which builds cannot reach: to allow it, add it to agents.image_build_hosts (--build-host)");
  }
  if (!unreached.empty())
    absl::StrAppend(&text, text.empty() ? "" : "; ", "it could not reach ", absl::StrJoin(unreached, ", "));
  return text;
}

}  // namespace

absl::StatusOr<std::string> BuildImage(const std::string& folder, const EgressList& hosts, const ImageTools& tools) {
  absl::StatusOr<std::string> output;
  std::string scratch, unreached;
  {
    const std::string store = fs::path(tools.folder()).parent_path().string();
    INGOT_ASSIGN_OR_RETURN(BuildSandbox sandbox, BuildSandbox::Make(store, hosts));
    INGOT_ASSIGN_OR_RETURN(scratch, MakeScratch(folder, sandbox.first_id(), tools));
    INGOT_ASSIGN_OR_RETURN(const BuildProgram program, BuildahOf(scratch));
    output = tools.RunStarted("buildah", [&](int out) { return sandbox.Start(program, out); });
    if (sandbox.proxy() != nullptr) unreached = DescribeUnreached(*sandbox.proxy());
  }  // all of the build's processes have exited
  if (!output.ok()) return unreached.empty() ? output.status() : base::Annotate(output.status(), unreached);
  if (!unreached.empty()) INGOT_LOG(warn, "the build of {} succeeded, but {}", folder, unreached);
  return TakeArchive(scratch, tools);
}

}  // namespace ingot::sandbox
