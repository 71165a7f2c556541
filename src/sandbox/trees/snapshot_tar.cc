#include "sandbox/trees/snapshot_tar.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "base/open_file.h"
#include "sandbox/trees/layers.h"

namespace ingot::sandbox {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kReadBytes = 256 << 10;
constexpr int64_t kMaxOctalSize = (int64_t{1} << 33) - 1;  // eleven octal digits
constexpr char kDeleted[] = ".wh.";
constexpr char kOpaque[] = ".wh..wh..opq";

enum class Kind : char { kFile = '0', kLink = '2', kFolder = '5', kPax = 'x' };

// The header's fields in order.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], type, link[100], magic[6], version[2];
  char user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(Header) == kBlock);

void Octal(char* field, size_t bytes, uint64_t number) {
  std::snprintf(field, bytes, "%0*llo", static_cast<int>(bytes - 1), static_cast<unsigned long long>(number));
}

std::string HeaderOf(const std::string& name, const std::string& link, Kind kind, uint64_t mode, int64_t size,
                     int64_t time) {
  Header header = {};
  name.copy(header.name, sizeof(header.name));
  link.copy(header.link, sizeof(header.link));
  Octal(header.mode, sizeof(header.mode), mode & 01777);
  Octal(header.uid, sizeof(header.uid), 0);
  Octal(header.gid, sizeof(header.gid), 0);
  Octal(header.size, sizeof(header.size), static_cast<uint64_t>(std::min(size, kMaxOctalSize)));
  Octal(header.time, sizeof(header.time), static_cast<uint64_t>(std::clamp<int64_t>(time, 0, kMaxOctalSize)));
  header.type = static_cast<char>(kind);
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  std::memset(header.sum, ' ', sizeof(header.sum));
  const char* const bytes = reinterpret_cast<const char*>(&header);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[i]);
  Octal(header.sum, 7, sum);
  return {bytes, kBlock};
}

// Returns a record of a pax header: its length, which includes its own digits, a name, and a value.
std::string PaxRecord(std::string_view name, const std::string& value) {
  const size_t rest = name.size() + value.size() + 3;  // the space, the equals sign, and the end of the line
  size_t length = rest;
  while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
  std::string record = std::to_string(length) + " ";
  record += name;
  return record + "=" + value + "\n";
}

std::string Padding(int64_t size) { return std::string((kBlock - size % kBlock) % kBlock, '\0'); }

// A name in a folder of the layers.
struct Child {
  std::string name;
  size_t layer = 0;      // the highest layer that has it, which determines its state
  bool deleted = false;  // that layer hides it
};

// A layer's folder with that name.
struct Part {
  size_t layer = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

// A folder whose children are being written.
struct Folder {
  size_t path_bytes = 0;  // length of TarWriter::path_
  // from readable layers that have it, from top to bottom, ending with one that hides the others
  std::vector<Part> parts;
  std::vector<Child> children;
  size_t next = 0;  // index in children
  int64_t held_bytes = 0;
};

class TarWriter {
 public:
  TarWriter(const TarLimits& limits, const ByteSink& sink) : limits_(limits), sink_(sink) {}

  // An agent controls the depth of its folders, so recursion is not used. One folder per layer is open.
  absl::Status Write(const TarPart& part) {
    part_ = &part;
    path_.clear();
    at_.clear();
    at_.resize(part.layers.size());
    std::vector<size_t> all(part.layers.size());
    std::iota(all.begin(), all.end(), size_t{0});
    INGOT_RETURN_IF_ERROR(Enter(all, ""));
    while (!folders_.empty()) {
      Folder& folder = folders_.back();
      path_.resize(folder.path_bytes);
      if (folder.next == folder.children.size()) {
        INGOT_RETURN_IF_ERROR(Leave());
        continue;
      }
      const Child& child = folder.children[folder.next++];
      if (child.deleted) continue;
      path_ += "/" + child.name;
      std::vector<size_t> layers;
      for (const Part& each : folder.parts) {
        if (each.layer >= child.layer) layers.push_back(each.layer);
      }
      INGOT_RETURN_IF_ERROR(WriteChild(layers, child.name));
    }
    return absl::OkStatus();
  }
  absl::Status End() { return sink_(std::string(2 * kBlock, '\0')); }

 private:
  static absl::Status Unreadable(const std::string& path) {
    const absl::Status why = ErrnoStatus(errno, absl::StrCat("cannot read ", path, " of a snapshot"));
    return absl::UnavailableError(why.message());
  }

  std::string PathIn(size_t layer) const { return part_->layers[layer] + path_; }  // for error messages
  std::string Name() const { return part_->name + path_; }

  absl::Status WriteHead(std::string name, const std::string& link, Kind kind, const struct stat& info, int64_t size) {
    if (kind == Kind::kFolder) name += "/";
    std::string pax;
    if (name.size() > sizeof(Header::name)) pax += PaxRecord("path", name);
    if (link.size() > sizeof(Header::link)) pax += PaxRecord("linkpath", link);
    if (size > kMaxOctalSize) pax += PaxRecord("size", std::to_string(size));
    std::string head;
    if (!pax.empty()) {
      const auto length = static_cast<int64_t>(pax.size());
      head = HeaderOf("PaxHeaders/entry", "", Kind::kPax, 0644, length, info.st_mtime) + pax + Padding(length);
    }
    return sink_(head + HeaderOf(name, link, kind, info.st_mode, size, info.st_mtime));
  }

  absl::Status WriteMark(const std::string& name) {
    struct stat info = {};
    info.st_mode = S_IFREG | 0644;
    return WriteHead(absl::StrCat(Name(), "/", name), "", Kind::kFile, info, 0);
  }

  // Writes `name`, which is at path_. `layers` are the layers of its folder, starting with the highest one that has it.
  absl::Status WriteChild(const std::vector<size_t>& layers, const std::string& name) {
    const size_t layer = layers.front();
    struct stat info;
    if (fstatat(at_[layer].get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return LeaveOutOr(PathIn(layer));
    if (S_ISDIR(info.st_mode)) return Enter(layers, name);
    if (S_ISREG(info.st_mode)) return WriteFile(layer, name);
    if (S_ISLNK(info.st_mode)) return WriteLink(layer, name, info);
    return absl::OkStatus();
  }

  // Must be called right after a failed system call. The agent has the same uid, so it cannot read files that Ingot
  // cannot read.
  static absl::Status LeaveOutOr(const std::string& path) {
    return errno == EACCES ? absl::OkStatus() : Unreadable(path);
  }

  // Opens the layer's folder at path_. The part's own folder is in one of Ingot's folders.
  Fd OpenFolder(size_t layer, const std::string& name) const {
    return name.empty() ? Fd(open(part_->layers[layer].c_str(), base::kOpenFolder))
                        : base::OpenBeneath(at_[layer].get(), name, base::kOpenFolder, base::PathLinks::kNone);
  }
  int Stat(size_t layer, const std::string& name, struct stat& info) const {
    return name.empty() ? lstat(part_->layers[layer].c_str(), &info)
                        : fstatat(at_[layer].get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  }

  // Starts the folder `name` at path_, unless none of `layers` has a folder there. A folder that Ingot may not list or
  // traverse is treated as empty.
  absl::Status Enter(const std::vector<size_t>& layers, const std::string& name) {
    Folder folder;
    folder.path_bytes = path_.size();
    std::vector<Fd> opened;
    struct stat top = {};
    bool is_there = false, hides = false;  // hides a folder below all layers
    for (const size_t layer : layers) {
      struct stat info;
      if (Stat(layer, name, info) != 0) continue;
      if (!S_ISDIR(info.st_mode)) break;
      if (!std::exchange(is_there, true)) top = info;
      Fd each = OpenFolder(layer, name);
      if (!each.valid() && errno != EACCES) return Unreadable(PathIn(layer));
      hides = each.valid() && IsOpaque(each.get());
      if (each.valid() && fstat(each.get(), &info) == 0 && Fd(openat(each.get(), ".", base::kOpenFolder)).valid()) {
        folder.parts.push_back({layer, info.st_dev, info.st_ino});
        opened.push_back(std::move(each));
      }
      if (hides) break;
    }
    if (!is_there) return absl::OkStatus();  // for example, early layers of a sandbox that did not have this part
    for (size_t i = 0; i < opened.size(); ++i) at_[folder.parts[i].layer] = std::move(opened[i]);
    INGOT_RETURN_IF_ERROR(WriteHead(Name(), "", Kind::kFolder, top, 0));
    INGOT_RETURN_IF_ERROR(List(folder));
    if (part_->marks_deleted && hides) INGOT_RETURN_IF_ERROR(WriteMark(kOpaque));
    for (const Child& child : folder.children) {
      if (part_->marks_deleted && child.deleted) INGOT_RETURN_IF_ERROR(WriteMark(kDeleted + child.name));
    }
    folders_.push_back(std::move(folder));
    return absl::OkStatus();
  }

  // Goes up in each layer, back to exactly the folder that it came from.
  absl::Status Leave() {
    const Folder folder = std::move(folders_.back());
    folders_.pop_back();
    held_bytes_ -= folder.held_bytes;
    if (folders_.empty()) return absl::OkStatus();
    for (const Part& left : folder.parts) {
      Fd& at = at_[left.layer];
      at = Fd(openat(at.get(), "..", base::kOpenFolder));
      const auto is_it = [&](const Part& each) { return each.layer == left.layer; };
      const Part& parent = *std::ranges::find_if(folders_.back().parts, is_it);
      struct stat info;
      if (!at.valid() || fstat(at.get(), &info) != 0) return Unreadable(PathIn(left.layer));
      if (info.st_ino != parent.inode || info.st_dev != parent.device) {
        return absl::UnavailableError(absl::StrCat(PathIn(left.layer), " of a snapshot was moved"));
      }
    }
    return absl::OkStatus();
  }

  // Finds the children of the folder at path_, sorted by name.
  absl::Status List(Folder& folder) {
    for (const Part& part : folder.parts) INGOT_RETURN_IF_ERROR(ListPart(part.layer, folder));
    std::vector<Child>& children = folder.children;
    std::ranges::stable_sort(children, {}, &Child::name);
    const auto lower = std::ranges::unique(children, {}, &Child::name);
    children.erase(lower.begin(), lower.end());
    held_bytes_ += folder.held_bytes;
    return absl::OkStatus();
  }

  absl::Status ListPart(size_t layer, Folder& folder) {
    const int at = at_[layer].get();
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(openat(at, ".", base::kOpenFolder)), closedir);
    if (entries == nullptr) return Unreadable(PathIn(layer));
    for (errno = 0; const dirent* const entry = readdir(entries.get()); errno = 0) {
      Child child{.name = entry->d_name, .layer = layer};
      if (child.name == "." || child.name == "..") continue;
      if (part_->marks_deleted && child.name.starts_with(kDeleted)) continue;  // it would be read as a whiteout
      struct stat info;
      if (entry->d_type == DT_CHR || entry->d_type == DT_UNKNOWN) {
        child.deleted =
            fstatat(at, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == 0;
      }
      folder.held_bytes += static_cast<int64_t>(sizeof(Child) + child.name.size());
      if (held_bytes_ + folder.held_bytes > limits_.name_bytes) {
        return absl::ResourceExhaustedError(absl::StrCat(Name(), " has too many files for an archive"));
      }
      folder.children.push_back(std::move(child));
    }
    return errno == 0 ? absl::OkStatus() : Unreadable(PathIn(layer));
  }

  absl::Status WriteLink(size_t layer, const std::string& name, const struct stat& info) {
    char target[PATH_MAX];
    const ssize_t length = readlinkat(at_[layer].get(), name.c_str(), target, sizeof(target));
    if (length < 0) return LeaveOutOr(PathIn(layer));
    return WriteHead(Name(), std::string(target, static_cast<size_t>(length)), Kind::kLink, info, 0);
  }

  absl::Status WriteFile(size_t layer, const std::string& name) {
    const Fd file =
        base::OpenBeneath(at_[layer].get(), name, O_RDONLY | O_NONBLOCK | O_CLOEXEC, base::PathLinks::kNone);
    struct stat info;
    if (!file.valid() || fstat(file.get(), &info) != 0) return LeaveOutOr(PathIn(layer));
    if (!S_ISREG(info.st_mode) || (limits_.only_of.has_value() && info.st_uid != *limits_.only_of)) {
      return absl::OkStatus();
    }
    const std::string path = PathIn(layer);
    const int64_t size = info.st_size;
    if (limits_.file_bytes > 0 &&
        size > limits_.file_bytes - file_bytes_) {  // includes holes, which a reader gets as zeros
      return absl::ResourceExhaustedError(absl::StrCat("the files of the snapshot have more than ", limits_.file_bytes,
                                                       " bytes, with ", size, " of ", Name()));
    }
    file_bytes_ += size;
    INGOT_RETURN_IF_ERROR(WriteHead(Name(), "", Kind::kFile, info, size));
    buffer_.resize(kReadBytes);
    for (int64_t at = 0; at < size;) {
      const auto most = static_cast<size_t>(std::min<int64_t>(size - at, kReadBytes));
      const ssize_t got = read(file.get(), buffer_.data(), most);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Unreadable(path);
      if (got == 0) return absl::UnavailableError(absl::StrCat(path, " of a snapshot became shorter"));
      INGOT_RETURN_IF_ERROR(sink_({buffer_.data(), static_cast<size_t>(got)}));
      at += got;
    }
    const std::string padding = Padding(size);
    return padding.empty() ? absl::OkStatus() : sink_(padding);
  }

  const TarLimits limits_;
  const ByteSink& sink_;
  const TarPart* part_ = nullptr;
  std::vector<Fd> at_;           // for each layer, its deepest folder in folders_
  std::string path_;             // relative to the part's folder: empty, or begins with a slash
  std::vector<Folder> folders_;  // from the part's folder to the current one
  int64_t held_bytes_ = 0;       // for all their children
  int64_t file_bytes_ = 0;       // in the archive so far
  std::string buffer_;
};

}  // namespace

absl::Status WriteTar(const std::vector<TarPart>& parts, const TarLimits& limits, const ByteSink& sink) {
  TarWriter writer(limits, sink);
  for (const TarPart& part : parts) INGOT_RETURN_IF_ERROR(writer.Write(part));
  return writer.End();
}

}  // namespace ingot::sandbox
