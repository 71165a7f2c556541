#include "execution/e2b/e2b_files.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/utf8.h"
#include "execution/e2b/connect.h"
#include "execution/e2b/e2b_sandboxes.h"
#include "execution/fields.h"
#include "execution/files_api.h"
#include "execution/requests.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr std::string_view kService = "/filesystem.Filesystem/";

object EntryJson(const Entry& entry) {
  const char* const type = entry.type == 'd'   ? "FILE_TYPE_DIRECTORY"
                           : entry.type == 'f' ? "FILE_TYPE_FILE"
                           : entry.type == 'l' ? "FILE_TYPE_SYMLINK"
                                               : "FILE_TYPE_UNSPECIFIED";
  const absl::Time changed = absl::FromUnixSeconds(entry.seconds) + absl::Nanoseconds(entry.nanos);
  object json = {{"name", base::ToUtf8(entry.name())},
                 {"type", type},
                 {"path", base::ToUtf8(entry.path)},
                 {"size", absl::StrCat(entry.size)},  // Protobuf's JSON encoding writes 64-bit numbers as strings.
                 {"mode", entry.mode},
                 {"permissions", entry.permissions()},
                 {"owner", base::ToUtf8(entry.owner)},
                 {"group", base::ToUtf8(entry.group)},
                 {"modifiedTime", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E9SZ", changed, absl::UTCTimeZone())}};
  if (entry.type == 'l') json["symlinkTarget"] = base::ToUtf8(entry.target);
  if (entry.type == 'l') json["isSymlink"] = true;
  return json;
}

// Returns the value of `name="..."` in a part's header.
std::string Quoted(std::string_view header, std::string_view name) {
  const std::string begin = absl::StrCat("; ", base::View(name), "=\"");
  const size_t at = header.find(begin);
  if (at == std::string_view::npos) return "";
  const size_t from = at + begin.size();
  const size_t end = header.find('"', from);
  // httpx and browsers encode a quote in the name as %22.
  return end == std::string_view::npos ? "" : PercentDecode(header.substr(from, end - from));
}

std::string Boundary(std::string_view content_type) {
  const size_t at = content_type.find("boundary=");
  if (at == std::string_view::npos) return "";
  std::string_view boundary = content_type.substr(at + 9);
  boundary = boundary.substr(0, boundary.find(';'));
  if (boundary.size() >= 2 && boundary.front() == '"' && boundary.back() == '"')
    boundary = boundary.substr(1, boundary.size() - 2);
  return std::string(boundary);
}

}  // namespace

absl::StatusOr<std::vector<FormFile>> ReadForm(std::string_view content_type, std::string_view body) {
  const std::string boundary = Boundary(content_type);
  if (boundary.empty()) return absl::InvalidArgumentError("multipart/form-data without a boundary");
  const std::string line = "--" + boundary, between = "\r\n" + line;
  if (!body.starts_with(line)) return absl::InvalidArgumentError("the form does not begin with its boundary");
  body.remove_prefix(line.size());
  std::vector<FormFile> files;
  for (int parts = 0; !body.starts_with("--"); ++parts) {
    if (parts == kMaxParts) {
      return absl::InvalidArgumentError(
          absl::StrCat("the form has more than ", kMaxParts, " parts: send the files in several forms"));
    }
    const size_t headers_end = body.find("\r\n\r\n");
    const size_t end = headers_end == std::string_view::npos ? headers_end : body.find(between, headers_end + 2);
    if (end == std::string_view::npos || !body.starts_with("\r\n"))
      return absl::InvalidArgumentError("the form is incomplete");
    const std::string_view headers = body.substr(0, headers_end);
    const size_t from = std::min(headers_end + 4, end);
    for (const std::string& header : std::vector<std::string>(absl::StrSplit(base::View(headers), "\r\n"))) {
      if (!absl::StartsWithIgnoreCase(header, "content-disposition:") || Quoted(header, "name") != "file") continue;
      files.push_back({Quoted(header, "filename"), body.substr(from, end - from)});
    }
    body.remove_prefix(end + between.size());
  }
  if (files.empty()) return absl::InvalidArgumentError("the form has no part named 'file'");
  return files;
}

bool E2bFiles::Owns(const http::RequestHead& head, const std::string& path) {
  const bool is_health = path == "/health" && !head.Find("e2b-sandbox-id").empty();
  return is_health || path == "/files" || path.starts_with(kService);
}

std::variant<http::Reply, std::shared_ptr<Feed>> E2bFiles::Open(const http::RequestHead& head, const Target& target,
                                                                const std::string& body, std::function<void()> wake) {
  if (target.path.starts_with(kService)) return ConnectReply(Call(head, target.path.substr(kService.size()), body));
  auto held = FindSandbox(store_, head);
  if (!held.ok()) return E2bError(held.status());
  if (target.path == "/health")
    return http::Reply{.status = 204, .content_type = "application/json", .fields = {}, .body = ""};
  const auto path = target.query.find("path");
  if (head.method == "GET" && path != target.query.end()) {
    auto download = MakeDownload(*std::move(held), path->second, std::move(wake));
    if (!download.ok()) return E2bError(download.status());
    return *std::move(download);
  }
  if (head.method == "POST") return Upload(head, target, body);
  return E2bError(absl::InvalidArgumentError("read files with GET and 'path', and write them with POST"));
}

http::Reply E2bFiles::Upload(const http::RequestHead& head, const Target& target, const std::string& body) {
  const auto held = FindSandbox(store_, head);
  if (!held.ok()) return E2bError(held.status());
  if (!head.Find("content-encoding").empty())
    return E2bError(absl::InvalidArgumentError("compressed uploads are not supported: upload without gzip"));
  const auto path = target.query.find("path");
  const std::string named = path == target.query.end() ? "" : path->second;
  const std::string_view type = head.Find("content-type");
  std::vector<FormFile> files = {{named, body}};
  if (type.starts_with("multipart/form-data")) {
    auto form = ReadForm(type, body);
    if (!form.ok()) return E2bError(form.status());
    files = *std::move(form);
    if (!named.empty() && files.size() == 1) files[0].name = named;
  }
  array written;
  Session& session = *(*held)->session;
  for (const FormFile& file : files) {
    if (file.name.empty()) return E2bError(absl::InvalidArgumentError("a file in the form has no path"));
    if (const absl::Status status = WriteWhole(session, file.name, file.bytes); !status.ok()) {
      if (!absl::IsResourceExhausted(status)) return E2bError(status);
      return JsonReply(507, object{{"code", 507}, {"message", base::ToUtf8(std::string(status.message()))}});
    }
    Entry entry;
    entry.path = session.Absolute(file.name);
    written.push_back(
        object{{"name", base::ToUtf8(entry.name())}, {"type", "file"}, {"path", base::ToUtf8(entry.path)}});
  }
  return JsonReply(200, written);
}

absl::StatusOr<object> E2bFiles::Call(const http::RequestHead& head, const std::string& method,
                                      const std::string& body) {
  INGOT_RETURN_IF_ERROR(CheckConnect(head, false));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<HeldSession> held, FindSandbox(store_, head));
  Session& session = *held->session;
  INGOT_ASSIGN_OR_RETURN(const value request, ParseObject(body));
  INGOT_ASSIGN_OR_RETURN(const std::string path, TextField(request, method == "Move" ? "source" : "path", ""));
  if (method == "ListDir") {
    const value* const depth = base::Find(request, "depth");
    const bool is_deep = depth != nullptr && depth->is_int64() && depth->get_int64() > 1;
    INGOT_ASSIGN_OR_RETURN(const std::vector<Entry> entries,
                           ListFolder(session, path, is_deep ? static_cast<uint32_t>(depth->get_int64()) : 1));
    array list;
    for (const Entry& entry : entries) list.push_back(EntryJson(entry));
    return object{{"entries", std::move(list)}};
  }
  std::string changed = path;
  if (method == "Remove") {
    INGOT_RETURN_IF_ERROR(session.Ask(FileOp::kRemove, {}, path).status);
    return object();
  }
  if (method == "MakeDir") INGOT_RETURN_IF_ERROR(session.Ask(FileOp::kMakeFolder, {}, path).status);
  if (method == "Move") {
    INGOT_ASSIGN_OR_RETURN(changed, TextField(request, "destination", ""));
    INGOT_RETURN_IF_ERROR(session.Ask(FileOp::kMove, {}, path, changed).status);
  }
  if (method != "MakeDir" && method != "Move" && method != "Stat")
    return absl::UnimplementedError(absl::StrCat("filesystem.Filesystem has no ", method, " here"));
  INGOT_ASSIGN_OR_RETURN(const Entry entry, StatFile(session, changed));
  return object{{"entry", EntryJson(entry)}};
}

}  // namespace ingot::execution
