#include "gateway/api/thread_names.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::value;

enum class Place {
  kHeader,
  kBody,  // a field in the body, with a dot between a field and its member
  kUser,  // a field in the body with Claude Code's user id, which contains the session id
};

// The names that one client uses: `thread` for the request's thread, `parent` for the thread that started it, `session`
// for the main thread, and `kind` for the kind of sub-agent. Threads that do not specify a parent have the main thread
// as their parent. null = the client has no such name. The first row with a thread or a session applies.
//
// Names for requests, users, and machines are not listed. For example, x-irid (Inspect) and x-client-request-id
// identify a request.
struct ThreadNames {
  Place place;
  const char* thread;
  const char* parent = nullptr;
  const char* session = nullptr;
  const char* kind = nullptr;
};
constexpr ThreadNames kThreadNames[] = {
    // Claude Code
    {Place::kHeader, "x-claude-code-agent-id", "x-claude-code-parent-agent-id", "x-claude-code-session-id"},
    {Place::kHeader, "x-dynamo-session-id", "x-dynamo-parent-session-id"},  // agents for NVIDIA Dynamo
    {Place::kHeader, "x-session-id", "x-parent-session-id"},                // OpenCode, OpenRouter clients
    {Place::kHeader, "thread-id", "x-codex-parent-thread-id", "session-id", "x-openai-subagent"},  // Codex
    {Place::kHeader, "conversation_id", "x-codex-parent-thread-id", "session_id",
     "x-openai-subagent"},                                          // older Codex, pi
    {Place::kHeader, "x-session-affinity", "x-parent-session-id"},  // pi, OpenCode
    {Place::kHeader, "x-litellm-session-id"},                       // LiteLLM, OpenHands
    {Place::kHeader, "x-opencode-session"},                         // OpenCode, for some providers
    {Place::kHeader, "agent-session-id"},                           // goose
    {Place::kHeader, "x-affinity"},                                 // Mistral Vibe
    {Place::kBody, "metadata.session_id"},                          // LiteLLM, Langfuse
    {Place::kBody, "litellm_session_id"},                           // LiteLLM
    {Place::kBody, "session_id"},                                   // OpenRouter clients
    {Place::kUser, "metadata.user_id"},                             // Claude Code
    {Place::kUser, "user"},                                         // same, through LiteLLM
    {Place::kBody, "prompt_cache_key"},  // Codex, OpenCode, pi; sub-agents may share their parent's
};

std::string BodyName(const Fields& body, std::string_view path) {
  const size_t dot = path.find('.');
  const value* field = body.Get(path.substr(0, dot));
  if (field != nullptr && dot != std::string_view::npos) field = base::Find(*field, path.substr(dot + 1));
  return field != nullptr && field->is_string() ? std::string(field->get_string()) : "";
}

// Returns the session in {"device_id":..,"account_uuid":..,"session_id":..}, or in the older
// user_.._account_.._session_... Returns "" for an ordinary user name.
std::string SessionOfUser(const std::string& user) {
  constexpr std::string_view kSession = "_session_";
  if (user.starts_with('{')) {
    const auto parts = base::ParseJson(user);
    const value* session = parts.ok() ? base::Find(*parts, "session_id") : nullptr;
    return session != nullptr && session->is_string() ? std::string(session->get_string()) : "";
  }
  const size_t at = user.rfind(kSession);
  if (!user.starts_with("user_") || at == std::string::npos) return "";
  const std::string session = user.substr(at + kSession.size());
  const auto is_id = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
  return std::all_of(session.begin(), session.end(), is_id) ? session : "";
}

std::string Name(Place place, const char* name, const Headers& headers, const Fields& body) {
  if (name == nullptr) return "";
  if (place == Place::kHeader) return base::Printable(headers.Get(name), {.max_bytes = kMaxName});
  const std::string text = BodyName(body, name);
  return base::CutText(place == Place::kUser ? SessionOfUser(text) : text, kMaxName);
}

}  // namespace

void ReadThread(const Headers& headers, Fields& body, GatewayRequest& request) {
  for (const ThreadNames& row : kThreadNames) {
    const auto get = [&](const char* name) { return Name(row.place, name, headers, body); };
    const std::string thread = get(row.thread), session = get(row.session);
    request.branch = thread.empty() ? session : thread;
    if (request.branch.empty()) continue;
    const std::string parent = get(row.parent), kind = get(row.kind);
    request.parent_branch = parent;
    request.session = !session.empty() ? session : !parent.empty() ? parent : thread;
    const bool main = thread.empty() || thread == session;
    if (main && !kind.empty()) {
      // A sub-agent identified only by its kind ("review", "compact") is a thread next to the main thread.
      request.branch = base::CutText(absl::StrCat(session, "/", kind), kMaxName);
      if (parent.empty()) request.parent_branch = session;
    } else if (!main && parent.empty()) {
      // The session is the parent of Claude Code's agents that do not specify a parent, and of Codex's threads that
      // specify their kind.
      if (row.kind == nullptr || !kind.empty()) request.parent_branch = session;
    }
    break;
  }
  const base::json::object* metadata = body.Object("metadata");
  const value* branch = metadata == nullptr ? nullptr : metadata->if_contains("branch");
  if (branch != nullptr && branch->is_string()) request.branch = base::CutText(branch->get_string(), kMaxName);
  if (request.session.empty()) request.session = request.branch;
}

}  // namespace ingot::gateway
