#include "sandbox/launcher/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "sandbox/launcher/isolation_steps.h"
#include "sandbox/launcher/left_out.h"
#include "sandbox/launcher/mounts.h"
#include "sandbox/launcher/shown.h"

// <sys/mount.h> and <linux/mount.h> of Debian 12 define the same types.
extern "C" int mount(const char*, const char*, const char*, unsigned long, const void*);
extern "C" int umount2(const char*, int);

namespace ingot::sandbox::launcher {
namespace {

constexpr int kDetach = 2;
constexpr char kImageRoot[] = "/.image";
constexpr char kImageLower[] = "/.lower";

// Same as MakePlace, but below an image's root. Returns ELOOP if the path has a link in the image, because the link
// would redirect the mount. With `replaces`, a link or file is replaced by a folder in this sandbox, because the agent
// of an earlier sandbox may have put it there.
int MakePlaceInImage(const char* path, bool replaces) {
  char part[4096];
  if (strlen(path) >= sizeof(part)) return ENAMETOOLONG;
  for (size_t i = 1; i <= strlen(path); ++i) {
    if (path[i] != '/' && path[i] != 0) continue;
    memcpy(part, path, i);
    part[i] = 0;
    struct stat info;
    if (lstat(part, &info) != 0 || S_ISDIR(info.st_mode)) continue;
    if (!replaces) return S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR;
    if (unlink(part) != 0) return errno;
  }
  return MakePlace(path, true);
}

constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
constexpr const char* kFolders[] = {"./proc", "./dev",  "./tmp",     "./var",      "./run",      "./home",
                                    "./root", "./sys",  "./dev/pts", "./dev/shm",  "./.image",   "./.lower",
                                    "./app",  "./logs", "./tests",   "./solution", "./home/user"};  // see BindMount
constexpr const char* kLinks[][2] = {{"/proc/self/fd", "./dev/fd"},       {"/proc/self/fd/0", "./dev/stdin"},
                                     {"/proc/self/fd/1", "./dev/stdout"}, {"/proc/self/fd/2", "./dev/stderr"},
                                     {"pts/ptmx", "./dev/ptmx"},          {"/tmp", "./var/tmp"}};

int MakeFrame() {
  for (const char* const folder : kFolders) {
    if (const int error = MakePlace(folder, true)) return error;
  }
  for (const auto& link : kLinks) {
    if (symlink(link[0], link[1]) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

// Maps files of the image's root user to the sandbox's uid. If sandboxes have no uids, both the files and the agent
// have Ingot's uid.
int PlaceImage(const SandboxPlan& plan, uint32_t isolation) {
  char source[4096];
  if (snprintf(source, sizeof(source), "%s%s", kSources, plan.image) >= static_cast<int>(sizeof(source)))
    return ENAMETOOLONG;
  const int tree = CloneTree(access(source, F_OK) == 0 ? source : plan.image, true);
  if (tree < 0) return errno;
  int error = 0;
  if ((isolation & kOwnUid) != 0) {
    const int names = UserNamespaceOf(0, plan.header->uid);
    if (names < 0) return errno;
    error = MapOwners(tree, names, false);
    close(names);
  }
  if (error == 0) error = Place(tree, kImageLower);
  close(tree);
  return error;
}

// Mounts one overlay: `part` of the layers, on top of `base` if it is not empty, with changes in SANDBOX/upper/`part`.
int Overlay(const SandboxPlan& plan, const char* part, const char* base, const char* target, uint32_t isolation) {
  // mount(2) accepts at most one page.
  char options[4096];
  size_t used = static_cast<size_t>(snprintf(options, sizeof(options), "lowerdir="));
  const auto add = [&](const char* folder, const char* name) {
    if (used >= sizeof(options)) return;
    const bool first = options[used - 1] == '=';
    used += static_cast<size_t>(snprintf(options + used, sizeof(options) - used, "%s%s%s%s", first ? "" : ":", folder,
                                         name[0] ? "/" : "", name));
  };
  for (uint32_t i = 0; i < plan.header->layers; ++i) add(plan.layers[i], part);
  if (base[0] != 0) add(base, "");
  if (options[used - 1] == '=') {  // no layers, so use an empty one
    char empty[3072];
    snprintf(empty, sizeof(empty), "%s/empty", plan.sandbox);
    add(empty, "");
  }
  if (used < sizeof(options)) {
    used += static_cast<size_t>(snprintf(options + used, sizeof(options) - used,
                                         ",upperdir=%s/upper/%s,workdir=%s/overlay/%s%s", plan.sandbox, part,
                                         plan.sandbox, part, (isolation & kUserNamespace) != 0 ? ",userxattr" : ""));
  }
  if (used >= sizeof(options)) return E2BIG;
  const unsigned long flags = FlagOf(Measure::kLayersNoSuid, kNoSuid) | FlagOf(Measure::kLayersNoDev, kNoDev);
  return mount("ingot", target, "overlay", flags, options) == 0 ? 0 : errno;
}

LaunchFailure LayerFolders(const SandboxPlan& plan, uint32_t isolation, int (&fds)[2]) {
  const char* const parts[2] = {"work", "home"};
  for (int i = 0; i < 2; ++i) {
    char target[4096];
    snprintf(target, sizeof(target), "%s/%s", plan.sandbox, parts[i]);
    if (const int error = Overlay(plan, parts[i], "", target, isolation)) return {LaunchStep::kLayers, error, 0};
    fds[i] = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fds[i] < 0) return {LaunchStep::kLayers, errno, 0};
  }
  return {};
}

LaunchFailure MountBinds(const SandboxPlan& plan, const char* root) {
  char path[4096], source[4096];
  for (uint32_t i = 0; i < plan.header->binds; ++i) {
    const char* const equals = strchr(plan.binds[i], '=');
    if (equals == nullptr) return {LaunchStep::kMessage, EINVAL, 1};
    snprintf(source, sizeof(source), "%s/%.*s", plan.sandbox, static_cast<int>(equals - plan.binds[i]), plan.binds[i]);
    snprintf(path, sizeof(path), "%s%s", root, equals + 1);
    const int made = root[0] == 0 ? 0 : MakePlaceInImage(path, plan.header->layers > 0);
    if (made != 0) return {LaunchStep::kFolder, made, 3};
    if (mount(source, path, nullptr, kBind, nullptr) != 0) return {LaunchStep::kFolder, errno, 3};
  }
  return {};
}

// Adds the mounts that every sandbox has below `root` ("" or kImageRoot). Without /dev/pts, only terminals are
// unavailable.
LaunchFailure MountOwn(const SandboxPlan& plan, const char* root) {
  char path[4096], source[4096];
  const auto at = [&](const char* name) {
    snprintf(path, sizeof(path), "%s%s", root, name);
    return path;
  };
  // Without an image, the work root may be below /tmp, which the sandbox's own /tmp covers.
  LaunchFailure bound = root[0] == 0 ? MountBinds(plan, root) : LaunchFailure();
  if (bound.step != LaunchStep::kNone) return bound;
  if (plan.sandbox[0] != 0) {
    snprintf(source, sizeof(source), "%s/tmp", plan.sandbox);
    if (Raises(Measure::kOwnTmp) && mount(source, at("/tmp"), nullptr, kBind, nullptr) != 0)
      return {LaunchStep::kFolder, errno, 1};
  }
  if (const int error = MountShm(at("/dev/shm"), plan.header->shm_bytes)) return {LaunchStep::kFolder, error, 2};
  if (root[0] != 0) bound = MountBinds(plan, root);
  if (bound.step != LaunchStep::kNone) return bound;
  const unsigned long flags = FlagOf(Measure::kTerminalsNoSuid, kNoSuid) | FlagOf(Measure::kTerminalsNoExec, kNoExec);
  if (Raises(Measure::kOwnTerminals)) {
    [[maybe_unused]] const int pts =
        mount("devpts", at("/dev/pts"), "devpts", flags, "newinstance,ptmxmode=0666,mode=620");
  }
  return {};
}

bool IsInTmp(const char* path) { return strncmp(path, "/tmp/", 5) == 0; }

// The sandbox's own /tmp covers the machine's. If the work root or programs are there, remounts the parts that the
// sandbox should see.
class UnderTmp {
 public:
  void KeepPath(const char* path) {
    struct stat info;
    if (!IsInTmp(path) || count_ == kMax || stat(path, &info) != 0) return;
    const int tree = CloneTree(path, true);
    if (tree >= 0) kept_[count_++] = {path, tree, S_ISDIR(info.st_mode)};
  }
  int PutBack() {
    int error = 0;
    for (int i = 0; i < count_; ++i) {
      if (error == 0) error = MakePlace(kept_[i].path, kept_[i].is_folder);
      if (error == 0) error = Place(kept_[i].tree, kept_[i].path);
      close(kept_[i].tree);
    }
    return error;
  }

 private:
  static constexpr int kMax = 32;
  struct {
    const char* path;
    int tree;
    bool is_folder;
  } kept_[kMax];
  int count_ = 0;
};

int BindInto(const SandboxPlan& plan, const char* source) {
  char target[4096];
  snprintf(target, sizeof(target), "%s%s", kImageRoot, source);
  if (const int error = MakePlaceInImage(target, plan.header->layers > 0)) return error;
  return mount(source, target, nullptr, kBind | kRecursive, nullptr) == 0 ? 0 : errno;
}

LaunchFailure EnterImage(const SandboxPlan& plan, uint32_t isolation) {
  int error = PlaceImage(plan, isolation);
  if (error == 0) error = Overlay(plan, "root", kImageLower, kImageRoot, isolation);
  if (error != 0) return {LaunchStep::kLayers, error, 1};
  char tmp[64];
  snprintf(tmp, sizeof(tmp), "%s/tmp", kImageRoot);
  error = MakePlaceInImage(tmp, plan.header->layers > 0);
  for (const char* const source : {"/proc", "/dev"}) {
    if (error == 0) error = BindInto(plan, source);
  }
  if (error != 0) return {LaunchStep::kLayers, error, 2};
  if (const LaunchFailure failure = MountOwn(plan, kImageRoot); failure.step != LaunchStep::kNone) return failure;
  if (error = BindInto(plan, plan.sandbox); error != 0) return {LaunchStep::kLayers, error, 3};
  if (chdir(kImageRoot) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", kDetach) != 0 ||
      chdir("/") != 0) {
    return {LaunchStep::kRoot, errno, 1};
  }
  return {};
}

int PlaceDevice(const char* path, int tree) {
  if (tree < 0) return 0;  // this machine does not have it
  char target[64];
  snprintf(target, sizeof(target), ".%s", path);
  int error = MakePlace(target, false);
  if (error == 0) error = Place(tree, target);
  close(tree);
  return error;
}

int PlaceWorkRoot(const char* path, int tree) {
  char target[4096];
  if (snprintf(target, sizeof(target), ".%s", path) >= static_cast<int>(sizeof(target))) return ENAMETOOLONG;
  int error = SetAttributes(tree,
                            FlagOf<uint64_t>(Measure::kWorkRootNoSuid, MOUNT_ATTR_NOSUID) |
                                FlagOf<uint64_t>(Measure::kWorkRootNoDev, MOUNT_ATTR_NODEV),
                            true);
  // Below a shown folder, it already exists.
  if (error == 0 && access(target, F_OK) != 0) error = MakePlace(target, true);
  if (error == 0) error = Place(tree, target);
  close(tree);
  return error;
}

}  // namespace

int MountShm(const char* path, uint32_t bytes) {
  if (!Raises(Measure::kOwnShm)) return 0;
  char options[80], size[32];
  snprintf(size, sizeof(size), ",size=%u", bytes);
  snprintf(options, sizeof(options), "mode=1777%s%s", Raises(Measure::kShmSize) ? size : "",
           Raises(Measure::kShmFiles) ? ",nr_inodes=4096" : "");
  const unsigned long flags = FlagOf(Measure::kShmNoSuid, kNoSuid) | FlagOf(Measure::kShmNoDev, kNoDev);
  return mount("ingot", path, "tmpfs", flags, options) == 0 ? 0 : errno;
}

int BuildRoot(const RootPlan& plan) {
  const int nobody =
      plan.maps_owners && Raises(Measure::kShownOwnersMapped) ? UserNamespaceOf(kNobodysId, kNobodysId) : -1;
  int error = 0;
  for (uint32_t i = 0; i < plan.visible_count && error == 0; ++i) error = TakeShown(plan.visible[i], nobody);
  for (uint32_t i = 0; nobody >= 0 && i < plan.source_count && error == 0; ++i) error = TakeSource(plan.sources[i]);
  if (nobody >= 0) close(nobody);
  constexpr size_t kDeviceCount = sizeof(kDevices) / sizeof(kDevices[0]);
  int devices[kDeviceCount];
  for (size_t i = 0; i < kDeviceCount; ++i) devices[i] = CloneTree(kDevices[i], true);
  const int proc = CloneTree("/proc", true), work_root = CloneTree(plan.work_root, true);
  if (error != 0) return error;
  // Any folder can be used, because this mount becomes the root.
  if (mount("ingot", "/tmp", "tmpfs", FlagOf(Measure::kRootNoSuid, kNoSuid), "mode=0755,size=1m,nr_inodes=4096") != 0 ||
      chdir("/tmp") != 0)
    return errno;
  error = MakeFrame();
  if (error == 0) error = PlaceShown();
  for (size_t i = 0; i < kDeviceCount && error == 0; ++i) error = PlaceDevice(kDevices[i], devices[i]);
  if (error == 0) error = Place(proc, "./proc");
  close(proc);
  if (error == 0) error = PlaceWorkRoot(plan.work_root, work_root);
  if (error != 0) return error;
  if (syscall(SYS_pivot_root, ".", ".") != 0) return errno;
  if ((Raises(Measure::kOldRootDetached) && umount2(".", kDetach) != 0) || chdir("/") != 0) return errno;
  const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  error = SetAttributes(root, FlagOf<uint64_t>(Measure::kRootReadOnly, MOUNT_ATTR_RDONLY), false);
  close(root);
  return error;
}

LaunchFailure EnterSandbox(const SandboxPlan& plan, uint32_t isolation, char** visible, uint32_t visible_count,
                           int (&fds)[2]) {
  if (plan.sandbox[0] == 0) return MountOwn(plan, "");
  if (plan.header->layered != 0) {
    if (const LaunchFailure failure = LayerFolders(plan, isolation, fds); failure.step != LaunchStep::kNone)
      return failure;
  }
  if (plan.image[0] != 0) return EnterImage(plan, isolation);
  if (const int error = LeaveSources()) return {LaunchStep::kRoot, error, 2};
  UnderTmp kept;
  for (uint32_t i = 0; i < visible_count; ++i) kept.KeepPath(visible[i]);
  kept.KeepPath(plan.sandbox);
  if (const LaunchFailure failure = MountOwn(plan, ""); failure.step != LaunchStep::kNone) return failure;
  if (const int error = kept.PutBack()) return {LaunchStep::kFolder, error, 4};
  if (IsInTmp(plan.work_root)) return {};
  if (const int error = ShowOneSandbox(plan.work_root, plan.sandbox)) return {LaunchStep::kFolder, error, 0};
  return {};
}

}  // namespace ingot::sandbox::launcher
