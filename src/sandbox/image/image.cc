#include "sandbox/image/image.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/waits.h"
#include "sandbox/egress/egress_list.h"
#include "sandbox/image/image_build.h"
#include "sandbox/image/image_inventory.h"
#include "sandbox/image/image_tools.h"
#include "sandbox/spawn.h"
#include "sandbox/trees/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kRegistryTimeout(30);
// Registries count queries as pulls, and every episode resolves its image.
constexpr std::chrono::hours kAnswerHolds(1);

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Outside of sandboxes, a user of the machine could exploit these bits.
absl::Status DropPrivilegeBits(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info;
    const char* const path = it->path().c_str();
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    lremovexattr(path, "security.capability");
    if ((info.st_mode & (S_ISUID | S_ISGID)) != 0 && chmod(path, info.st_mode & 01777) != 0)
      return ErrnoStatus(errno, absl::StrCat("cannot clear the setuid bit of ", path));
  }
  return error ? absl::UnavailableError(absl::StrCat("cannot read ", folder, ": ", error.message())) : absl::OkStatus();
}

}  // namespace

std::string PlaceIn(const std::string& rootfs, const std::string& path) {
  constexpr int kMaxLinks = 40;  // limit per path, as in the kernel
  std::vector<std::string> done;
  std::vector<std::string> left;  // the next component is last
  const auto add = [&left](const std::string& more) {
    const std::vector<std::string> parts = absl::StrSplit(more, '/', absl::SkipEmpty());
    left.insert(left.end(), parts.rbegin(), parts.rend());
  };
  add(path);
  for (int links = 0; !left.empty();) {
    const std::string part = std::move(left.back());
    left.pop_back();
    if (part == ".") continue;
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    std::error_code none;
    const fs::path target = fs::read_symlink(absl::StrCat(rootfs, "/", absl::StrJoin(done, "/")), none);
    if (none) continue;
    if (++links > kMaxLinks) return path;
    done.pop_back();
    if (target.is_absolute()) done.clear();
    add(target.string());
  }
  return absl::StrCat("/", absl::StrJoin(done, "/"));
}

namespace {

// Returns the digest of the only manifest in an OCI layout.
absl::StatusOr<std::string> DigestOf(const std::string& layout) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value index, base::ParseJson(ReadText(layout + "/index.json")));
  const base::json::value* const manifests = base::Find(index, "manifests");
  if (manifests == nullptr || !manifests->is_array() || manifests->get_array().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(layout, " does not contain an image"));
  }
  const base::json::value* const digest = base::Find(manifests->get_array()[0], "digest");
  if (digest == nullptr || !digest->is_string()) return absl::InvalidArgumentError("the image has no digest");
  return std::string(digest->get_string());
}

// Returns whether the image with this manifest in the layout has a layer compressed with zstd.
bool HasZstdLayers(const std::string& layout, const std::string& digest) {
  const size_t colon = digest.find(':');
  const auto manifest = base::ParseJson(
      ReadText(absl::StrCat(layout, "/blobs/", digest.substr(0, colon), "/", digest.substr(colon + 1))));
  const base::json::value* const layers = manifest.ok() ? base::Find(*manifest, "layers") : nullptr;
  if (layers == nullptr || !layers->is_array()) return false;
  const auto is_zstd = [](const base::json::value& layer) {
    const base::json::value* const type = base::Find(layer, "mediaType");
    return type != nullptr && type->is_string() && std::string_view(type->get_string()).ends_with("+zstd");
  };
  return std::any_of(layers->get_array().begin(), layers->get_array().end(), is_zstd);
}

// Returns the digest that a registry currently has for `name`.
absl::StatusOr<std::string> AskRegistry(const std::string& name, const ImageTools& tools) {
  INGOT_ASSIGN_OR_RETURN(
      const std::string output,
      tools.Run({"skopeo", "inspect", "--no-tags", "--format", "{{.Digest}}", name}, kRegistryTimeout));
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    if (IsImageDigest(std::string(line))) return std::string(line);
  }
  return absl::InvalidArgumentError("skopeo inspect printed no digest");
}

}  // namespace

absl::StatusOr<Image> ImageStore::Load(const std::string& digest) const {
  const std::string folder = ImageFolder(root_, digest);
  Image image;
  image.digest = digest;
  image.rootfs = fs::absolute(folder + "/rootfs").string();
  std::error_code error;
  if (!fs::is_directory(image.rootfs, error)) {
    return absl::NotFoundError(absl::StrCat("the store ", root_, " has no image ", digest));
  }
  NoteUse(root_, digest);
  INGOT_ASSIGN_OR_RETURN(const base::json::value config, base::ParseJson(ReadText(folder + "/image.json")));
  const base::json::value* const process = base::Find(config, "process");
  if (process == nullptr) return image;
  if (const auto* const cwd = base::Find(*process, "cwd"); cwd != nullptr && cwd->is_string()) {
    image.working_dir = std::string(cwd->get_string());
  }
  const base::json::value* const env = base::Find(*process, "env");
  if (env == nullptr || !env->is_array()) return image;
  for (const base::json::value& entry : env->get_array()) {
    if (!entry.is_string()) continue;
    const std::string text(entry.get_string());
    const size_t equals = text.find('=');
    if (equals != std::string::npos && equals > 0) image.env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return image;
}

absl::StatusOr<std::string> ImageStore::Unpack(const std::string& archive, const ImageTools& tools) const {
  std::string layout = tools.folder() + "/layout";
  const std::string unpacked = tools.folder() + "/unpacked", bundle = unpacked + "/bundle";
  INGOT_RETURN_IF_ERROR(
      tools.Run({"skopeo", "--insecure-policy", "copy", archive, "oci:" + layout + ":image"}).status());
  INGOT_ASSIGN_OR_RETURN(std::string digest, DigestOf(layout));
  if (HasZstdLayers(layout, digest)) {
    INGOT_ASSIGN_OR_RETURN(layout, WithGzipLayers(layout, tools));
    INGOT_ASSIGN_OR_RETURN(digest, DigestOf(layout));
  }
  const std::string place = ImageFolder(root_, digest);
  std::error_code error;
  if (fs::is_directory(place, error)) return digest;
  fs::create_directory(unpacked, error);
  const int64_t archive_bytes = std::max(SizeOf(layout), SizeOf(archive.substr(archive.find(':') + 1)));
  const UnpackBound bound{.folder = unpacked, .archive_bytes = archive_bytes};
  // Ignores owners, because sandboxes show all files as owned by their own root.
  INGOT_RETURN_IF_ERROR(
      tools.Run({"umoci", "unpack", "--rootless", "--image", layout + ":image", bundle}, kToolTimeout, bound).status());
  INGOT_RETURN_IF_ERROR(DropPrivilegeBits(bundle + "/rootfs"));
  fs::rename(bundle + "/config.json", bundle + "/image.json", error);
  for (fs::directory_iterator it(bundle, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name != "rootfs" && name != "image.json") INGOT_RETURN_IF_ERROR(RemoveTree(it->path().string()));
  }
  chmod(bundle.c_str(), 0755);
  fs::rename(bundle, place, error);
  if (error && !fs::is_directory(place)) {
    return absl::UnavailableError(absl::StrCat("cannot write an image to ", place, ": ", error.message()));
  }
  return digest;
}

// umoci does not support zstd. skopeo decompresses the layers into a folder in its own format, and then compresses them
// with gzip.
absl::StatusOr<std::string> ImageStore::WithGzipLayers(const std::string& layout, const ImageTools& tools) {
  const std::string plain = tools.folder() + "/plain", gzip = tools.folder() + "/gzip";
  std::error_code error;
  fs::create_directory(plain, error);
  const UnpackBound bound{.folder = plain, .archive_bytes = SizeOf(layout)};
  INGOT_RETURN_IF_ERROR(
      tools
          .Run({"skopeo", "--insecure-policy", "copy", "--dest-decompress", "oci:" + layout + ":image", "dir:" + plain},
               kToolTimeout, bound)
          .status());
  INGOT_RETURN_IF_ERROR(
      tools.Run({"skopeo", "--insecure-policy", "copy", "dir:" + plain, "oci:" + gzip + ":image"}).status());
  INGOT_RETURN_IF_ERROR(RemoveTree(plain));
  return gzip;
}

ImageStore::Record ImageStore::ReadRecord(const Source& source) {
  std::vector<std::string> lines = absl::StrSplit(ReadText(source.record), '\n');
  lines.resize(3);
  if (!IsImageDigest(lines[0])) return {};
  return {.digest = lines[0], .registry_digest = lines[2]};
}

absl::Status ImageStore::WriteRecord(const Source& source, const Record& record) {
  return base::ReplaceFile(source.record,
                           absl::StrCat(record.digest, "\n", source.Name(), "\n", record.registry_digest, "\n"),
                           {.durable = false});
}

absl::Status ImageStore::TakeTurn(const Source& source) {
  base::MutexLock lock(mu_);
  std::optional<base::Wait> wait;
  std::shared_ptr<const Turn> waited;
  while (!cancel_.cancelled()) {
    if (waited != nullptr && waited->has_ended && !waited->end.ok()) return waited->end;
    std::shared_ptr<Turn>& turn = turns_[source.record];
    if (turn == nullptr) {
      turn = std::make_shared<Turn>();
      return absl::OkStatus();
    }
    waited = turn;
    if (!wait.has_value()) wait.emplace(absl::StrCat("the image ", source.Name()), base::WaitKind::kWork);
    changed_.WaitFor(mu_, std::chrono::milliseconds(200));
  }
  return absl::CancelledError(absl::StrCat("stopped before the image '", source.Name(), "' was unpacked"));
}

void ImageStore::EndTurn(const Source& source, const absl::Status& end) {
  base::MutexLock lock(mu_);
  const auto turn = turns_.extract(source.record).mapped();
  turn->end = end;
  turn->has_ended = true;
  changed_.SignalAll();
}

void ImageStore::Hold() {
  base::MutexLock lock(mu_);
  if (!hold_.valid()) hold_ = HoldImages(root_);
}

void ImageStore::NoteAnswer(const Source& source) {
  base::MutexLock lock(mu_);
  asked_[source.path] = clock_.Now();
}

std::optional<Image> ImageStore::Find(const Source& source) {
  if (source.moves) {
    base::MutexLock lock(mu_);
    const auto asked = asked_.find(source.path);
    if (asked == asked_.end() || clock_.Now() - asked->second >= kAnswerHolds) return std::nullopt;
  }
  auto image = Load(ReadRecord(source).digest);
  return image.ok() ? std::optional(*std::move(image)) : std::nullopt;
}

absl::StatusOr<std::optional<Image>> ImageStore::Compare(const Source& source, const absl::StatusOr<ImageTools>& tools,
                                                         Record& record) {
  auto last = Load(record.digest);
  if (!tools.ok() && !last.ok()) return tools.status();
  const auto now = tools.ok() ? AskRegistry(source.Name(), *tools) : absl::StatusOr<std::string>(tools.status());
  if (absl::IsCancelled(now.status())) return now.status();
  if (!now.ok() && !last.ok()) {
    return absl::Status(
        now.status().code(),
        absl::StrCat("the registry returned no digest, and no copy was pulled earlier: ", now.status().message(),
                     ". Check the name, the network, and the proxy, or use ", "an archive (oci-archive:FILE)"));
  }
  if (!now.ok()) {
    INGOT_LOG(
        warn,
        "the registry of the image '{}' returned no digest ({}): using the most recently pulled copy, {}, for an hour",
        source.Name(), std::string(now.status().message()), record.digest);
  }
  if (last.ok() && (!now.ok() || *now == record.registry_digest)) {
    NoteAnswer(source);
    return *std::move(last);
  }
  // If the name changes between this response and the pull, the image is pulled again after the next query.
  record.registry_digest = *now;
  return std::nullopt;
}

absl::StatusOr<Image> ImageStore::Fetch(const Source& source) {
  std::error_code error;
  fs::create_directories(root_ + "/sources", error);
  Hold();  // for a new store
  const bool is_first = [this] {
    base::MutexLock lock(mu_);
    return !std::exchange(swept_, true);
  }();
  if (is_first) RemoveStaleScratch(root_);
  const absl::StatusOr<ImageTools> tools = ImageTools::Make(root_, options_.limits, cancel_);
  Record record = ReadRecord(source);
  if (source.moves) {
    INGOT_ASSIGN_OR_RETURN(auto last, Compare(source, tools, record));
    if (last.has_value()) return *std::move(last);
  }
  INGOT_RETURN_IF_ERROR(tools.status());
  std::string archive = source.Name();
  if (source.kind == "dockerfile") {
    INGOT_ASSIGN_OR_RETURN(const EgressList hosts, EgressList::Parse(options_.build_hosts));
    INGOT_ASSIGN_OR_RETURN(archive, BuildImage(source.path, hosts, *tools));
  }
  INGOT_ASSIGN_OR_RETURN(record.digest, Unpack(archive, *tools));
  INGOT_RETURN_IF_ERROR(WriteRecord(source, record));
  if (source.moves) NoteAnswer(source);
  return Load(record.digest);
}

absl::StatusOr<Image> ImageStore::Resolve(const std::string& text) {
  if (IsImageDigest(text)) return Held(text);
  INGOT_ASSIGN_OR_RETURN(const ImageSource named, ParseImageSource(text));
  return ResolveSource(text, named);
}

absl::StatusOr<Image> ImageStore::ResolveStrangers(const std::string& text) {
  if (IsImageDigest(text)) return Held(text);
  INGOT_ASSIGN_OR_RETURN(const ImageSource named, ParseStrangersSource(text, options_.folders));
  return ResolveSource(text, named);
}

absl::StatusOr<Image> ImageStore::Held(const std::string& digest) {
  Hold();
  return Load(digest);
}

absl::StatusOr<Image> ImageStore::ResolveSource(const std::string& text, const ImageSource& named) {
  Source source{named, ""};
  if (source.kind == "folder") return Image{.digest = "", .rootfs = source.path, .env = {}, .working_dir = "/"};
  source.record = absl::StrCat(root_, "/sources/", Fingerprint(source));
  Hold();
  if (auto image = Find(source)) return *std::move(image);
  INGOT_RETURN_IF_ERROR(TakeTurn(source));
  absl::Status end;
  const absl::Cleanup end_turn = [&] { EndTurn(source, end); };
  if (auto image = Find(source)) return *std::move(image);  // unpacked in the previous turn
  auto image = Fetch(source);
  if (image.ok()) return image;
  const absl::Status failed = base::Annotate(image.status(), absl::StrCat("the image '", text, "'"));
  end = failed;
  return failed;
}

}  // namespace ingot::sandbox
