#include "execution/e2b/e2b_sandboxes.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "execution/fields.h"
#include "execution/requests.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// Version of the agent inside an E2B sandbox. With this version, the SDK uses octet uploads and closes stdin.
constexpr char kEnvdVersion[] = "0.5.7";
constexpr double kUsualSeconds = 300;
constexpr double kMaxSeconds = 24 * 3600;
constexpr int kMaxListed = 100;

std::string Time(HeldSession::Clock::time_point time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

object Tokens(const HeldSession& held) {
  return {{"sandboxID", held.id},          {"templateID", held.request.template_name},
          {"clientID", "ingot"},           {"envdVersion", kEnvdVersion},
          {"envdAccessToken", held.token}, {"trafficAccessToken", held.token}};
}

object Detail(HeldSession& held) {
  object metadata;
  for (const auto& [name, text] : held.request.metadata) metadata[name] = text;
  const auto cpus = static_cast<int64_t>(held.request.totals.cpus + 0.999);
  return {{"sandboxID", held.id},
          {"templateID", held.request.template_name},
          {"clientID", "ingot"},
          {"startedAt", Time(held.started_at)},
          {"endAt", Time(held.ends_at())},
          {"envdVersion", kEnvdVersion},
          {"cpuCount", std::max<int64_t>(cpus, 1)},
          {"memoryMB", held.request.totals.memory_bytes >> 20},
          {"diskSizeMB", 0},
          {"state", "running"},
          {"metadata", std::move(metadata)}};
}

// Returns the seconds in a body's field `name`, or `otherwise` if it is missing or null.
absl::StatusOr<double> SecondsOf(const value& request, const char* name, double otherwise) {
  const value* const found = base::Find(request, name);
  if (found == nullptr || found->is_null()) return otherwise;
  const double seconds = found->is_number() ? found->to_number<double>() : -1;
  if (seconds >= 0 && seconds <= kMaxSeconds) return seconds;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be seconds from 0 to ", kMaxSeconds));
}

// Rejects options that would change what a program sees. Ignoring them silently would mislead the client.
absl::Status CheckWishes(const value& request) {
  for (const auto& [name, why] :
       std::vector<std::pair<const char*, const char*>>{{"mcp", "sandboxes here have no MCP servers"},
                                                        {"volumeMounts", "sandboxes here have no volumes"},
                                                        {"iam", "sandboxes here have no identities"},
                                                        {"network", "sandboxes here have no network to configure"}}) {
    const value* const wish = base::Find(request, name);
    const bool is_empty = wish == nullptr || wish->is_null() || (wish->is_object() && wish->get_object().empty()) ||
                          (wish->is_array() && wish->get_array().empty());
    if (!is_empty) return absl::InvalidArgumentError(absl::StrCat("'", name, "': ", why));
  }
  INGOT_ASSIGN_OR_RETURN(const bool pauses, FlagField(request, "autoPause"));
  if (pauses) return absl::InvalidArgumentError("'autoPause': sandboxes here cannot be paused");
  INGOT_ASSIGN_OR_RETURN(const bool internet, FlagField(request, "allow_internet_access"));
  if (internet) return absl::InvalidArgumentError("'allow_internet_access': sandboxes here have no internet");
  return absl::OkStatus();
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

bool HasMetadata(const HeldSession& held, const std::string& wanted) {
  for (const auto& [name, text] : ParseTarget("?" + wanted).query) {
    // The SDK encodes each word and then the whole string.
    const auto found = held.request.metadata.find(PercentDecode(name));
    if (found == held.request.metadata.end() || found->second != PercentDecode(text)) return false;
  }
  return true;
}

http::Reply NoContent() { return {.status = 204, .content_type = "application/json", .fields = {}, .body = ""}; }

// Splits a path that this API owns into "sandboxes" and the words after it.
std::vector<std::string> WordsOf(const Target& target) {
  std::vector<std::string> words = absl::StrSplit(target.path, '/', absl::SkipEmpty());
  if (words[0] == "v2") words.erase(words.begin());
  return words;
}

}  // namespace

absl::StatusOr<std::shared_ptr<HeldSession>> FindSandbox(SessionStore& store, const http::RequestHead& head) {
  const std::string id(head.Find("e2b-sandbox-id"));
  if (id.empty()) {
    return absl::InvalidArgumentError(
        "a request to a sandbox needs its id in E2b-Sandbox-Id: set E2B_SANDBOX_URL for the SDK");
  }
  std::shared_ptr<HeldSession> held = store.Find(id);
  // The SDK looks for "was not found".
  if (held == nullptr) return absl::UnavailableError(absl::StrCat("the sandbox ", base::ToUtf8(id), " was not found"));
  for (const char* const field : {"x-access-token", "e2b-traffic-access-token"}) {
    if (base::SameSecret(head.Find(field), held->token)) return held;
  }
  return absl::UnauthenticatedError("the token does not match the sandbox's");
}

http::Reply E2bError(const absl::Status& status) {
  int code = 500;
  if (absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) code = 400;
  if (absl::IsUnauthenticated(status)) code = 401;
  if (absl::IsPermissionDenied(status)) code = 403;
  if (absl::IsNotFound(status)) code = 404;
  if (absl::IsAlreadyExists(status)) code = 409;
  if (absl::IsResourceExhausted(status)) code = 429;
  if (absl::IsUnimplemented(status)) code = 501;
  if (absl::IsUnavailable(status)) code = 502;
  return JsonReply(code, object{{"code", code}, {"message", base::ToUtf8(std::string(status.message()))}});
}

bool E2bSandboxes::Owns(const Target& target) {
  return target.path == "/sandboxes" || target.path == "/v2/sandboxes" || target.path.starts_with("/sandboxes/") ||
         target.path.starts_with("/v2/sandboxes/");
}

bool E2bSandboxes::Opens(const http::RequestHead& head, const Target& target) {
  return head.method == "POST" && Owns(target) && WordsOf(target).size() == 1;
}

http::Reply E2bSandboxes::Open(OpenRequest request, const sandbox::Cancellation& cancel) {
  const auto held = store_.Open(std::move(request), cancel);
  if (!held.ok()) return E2bError(held.status());
  http::Reply reply = JsonReply(201, Tokens(**held));
  reply.unread = [&store = store_, id = (*held)->id] { store.RemoveUnused(id); };
  return reply;
}

std::string E2bSandboxes::Ends(const http::RequestHead& head, const Target& target) {
  if (head.method != "DELETE" || !Owns(target)) return "";
  const std::vector<std::string> words = WordsOf(target);
  return words.size() == 2 ? words[1] : "";
}

http::Reply E2bSandboxes::Ended() { return NoContent(); }

http::Reply E2bSandboxes::NoSandbox(const std::string& id) {
  return E2bError(absl::NotFoundError(absl::StrCat("the sandbox ", base::ToUtf8(id), " was not found")));
}

http::Reply E2bSandboxes::Answer(const http::RequestHead& head, const Target& target, const std::string& body) {
  const std::vector<std::string> words = WordsOf(target);
  if (words.size() == 1 && head.method == "GET") return List(target);
  if (words.size() == 2 || words.size() == 3)
    return AnswerOne(head.method, words[1], words.size() == 3 ? words[2] : "", body);
  return E2bError(absl::UnimplementedError(absl::StrCat("there is no ", head.method, " ", target.path)));
}

absl::StatusOr<OpenRequest> E2bSandboxes::Parse(const std::string& body) {
  INGOT_ASSIGN_OR_RETURN(const value request, ParseObject(body));
  INGOT_RETURN_IF_ERROR(CheckWishes(request));
  OpenRequest open;
  INGOT_ASSIGN_OR_RETURN(open.template_name, TextField(request, "templateID", "base"));
  if (open.template_name != "base" && open.template_name != "code-interpreter-v1") {
    if (open.template_name.find(':') == std::string::npos) {
      return absl::NotFoundError(
          absl::StrCat("unknown template '", open.template_name,
                       "': use base, code-interpreter-v1, or an image as named by `ingot image`"));
    }
    INGOT_ASSIGN_OR_RETURN(open.image, ImageOf(object{{"image", open.template_name}}));
  }
  INGOT_ASSIGN_OR_RETURN(open.env, MapField(request, "envVars"));
  INGOT_ASSIGN_OR_RETURN(open.metadata, MapField(request, "metadata"));
  INGOT_ASSIGN_OR_RETURN(const double seconds, SecondsOf(request, "timeout", kUsualSeconds));
  open.lifetime = std::max(std::chrono::milliseconds(1), Milliseconds(seconds));
  open.idle = std::chrono::nanoseconds(-1);
  return open;
}

http::Reply E2bSandboxes::List(const Target& target) {
  const auto word = [&target](const char* name) {
    const auto found = target.query.find(name);
    return found == target.query.end() ? std::string() : found->second;
  };
  const std::string state = word("state"), metadata = word("metadata"), after = word("nextToken");
  int limit = kMaxListed;
  if (int asked = 0; absl::SimpleAtoi(word("limit"), &asked) && asked > 0) limit = std::min(asked, kMaxListed);
  array list;
  std::string last, next;
  for (const auto& held : store_.List()) {
    if (held->id <= after || !HasMetadata(*held, metadata)) continue;
    if (!state.empty() && state.find("running") == std::string::npos) continue;
    if (std::ssize(list) == limit) {
      next = last;
      break;
    }
    list.push_back(Detail(*held));
    last = held->id;
  }
  http::Reply reply = JsonReply(200, list);
  if (!next.empty()) reply.fields.emplace_back("x-next-token", next);
  return reply;
}

http::Reply E2bSandboxes::AnswerOne(const std::string& method, const std::string& id, const std::string& action,
                                    const std::string& body) {
  const std::shared_ptr<HeldSession> held = store_.Find(id);
  if (held == nullptr) return NoSandbox(id);
  if (action.empty() && method == "GET") {
    object detail = Detail(*held);
    detail["envdAccessToken"] = held->token;
    return JsonReply(200, detail);
  }
  if (method == "POST" && (action == "timeout" || action == "connect" || action == "refreshes")) {
    const auto request = ParseObject(body);
    if (!request.ok()) return E2bError(request.status());
    const auto seconds = SecondsOf(*request, action == "refreshes" ? "duration" : "timeout", kUsualSeconds);
    if (!seconds.ok()) return E2bError(seconds.status());
    // Connecting never shortens the timeout.
    const HeldSession::Clock::time_point end = store_.now() + Milliseconds(*seconds);
    held->SetEnd(action == "timeout" ? end : std::max(end, held->ends_at()));
    if (action == "connect") return JsonReply(200, Tokens(*held));
    return NoContent();
  }
  return E2bError(absl::UnimplementedError(absl::StrCat("sandboxes here have no ", method, " ", action)));
}

}  // namespace ingot::execution
