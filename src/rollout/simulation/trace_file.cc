#include "rollout/simulation/trace_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"

namespace ingot::rollout {
namespace {

namespace json = base::json;

constexpr int64_t kMostTokens = 10'000'000;     // maximum tokens in a piece or an answer
constexpr int64_t kMostMillis = 1'000'000'000;  // about 11 days
constexpr int64_t kMooncakeTokens = 512;        // tokens per hash id

// Contents of different kinds must differ.
enum Kind : uint64_t { kScaffold = 1, kGroupPrompt, kTurn, kAnswer, kBlock, kBlockEnd };
uint64_t ContentOf(Kind kind, uint64_t a = 0, uint64_t b = 0) { return base::DeriveSeed(base::DeriveSeed(kind, a), b); }

absl::Status Wrong(std::string_view field, std::string_view must) {
  return absl::InvalidArgumentError(absl::StrCat("'", base::View(field), "' must be ", base::View(must)));
}

absl::StatusOr<int64_t> Number(const json::value* value, std::string_view field, int64_t least, int64_t most) {
  int64_t number = -1;
  if (value != nullptr && value->is_int64()) number = value->get_int64();
  if (value != nullptr && value->is_double())
    number = static_cast<int64_t>(std::min(std::max(value->get_double(), -1.0), 1e15));
  if (number >= least && number <= most) return number;
  return Wrong(field, absl::StrCat("a number from ", least, " to ", most));
}

absl::StatusOr<const json::array*> Array(const json::value& line, std::string_view field, size_t least) {
  const json::value* value = base::Find(line, field);
  if (value != nullptr && value->is_array() && value->get_array().size() >= least) return &value->get_array();
  return Wrong(field, absl::StrCat("a list with at least ", least, " entries"));
}

absl::StatusOr<int32_t> Tokens(const json::value* value, std::string_view field, int64_t least) {
  INGOT_ASSIGN_OR_RETURN(const int64_t tokens, Number(value, field, least, kMostTokens));
  return static_cast<int32_t>(tokens);
}

absl::StatusOr<TraceSession> ParseEpisode(const json::value& line, uint64_t number) {
  TraceSession episode{.start_seconds = 0, .episode = true, .calls = {}};
  INGOT_ASSIGN_OR_RETURN(const int64_t group, Number(base::Find(line, "group"), "group", 0, INT64_MAX));
  INGOT_ASSIGN_OR_RETURN(const json::array* shared, Array(line, "shared_tokens", 2));
  INGOT_ASSIGN_OR_RETURN(const json::array* turns, Array(line, "turns", 1));
  for (size_t i = 0; i < turns->size(); ++i) {
    const json::value& turn = (*turns)[i];
    if (!turn.is_array() || turn.get_array().size() != 3) return Wrong("turns", "lists of three numbers");
    const json::array& numbers = turn.get_array();
    TraceCall call;
    if (i == 0) {
      INGOT_ASSIGN_OR_RETURN(const int32_t scaffold, Tokens(&(*shared)[0], "shared_tokens", 0));
      INGOT_ASSIGN_OR_RETURN(const int32_t prompt, Tokens(&(*shared)[1], "shared_tokens", 1));
      call.added = {{ContentOf(kScaffold), scaffold}, {ContentOf(kGroupPrompt, static_cast<uint64_t>(group)), prompt}};
    }
    INGOT_ASSIGN_OR_RETURN(const int32_t added, Tokens(&numbers[0], "turns", 0));
    INGOT_ASSIGN_OR_RETURN(const int32_t answer, Tokens(&numbers[1], "turns", 1));
    INGOT_ASSIGN_OR_RETURN(const int64_t delay, Number(&numbers[2], "turns", 0, kMostMillis));
    call.added.push_back({ContentOf(kTurn, number, i), added});
    call.answer = {ContentOf(kAnswer, number, i), answer};
    call.delay_seconds = static_cast<double>(delay) * 1e-3;
    episode.calls.push_back(std::move(call));
  }
  return episode;
}

absl::StatusOr<TraceSession> ParseRequest(const json::value& line, uint64_t number) {
  INGOT_ASSIGN_OR_RETURN(const json::array* ids, Array(line, "hash_ids", 1));
  INGOT_ASSIGN_OR_RETURN(const int64_t at, Number(base::Find(line, "timestamp"), "timestamp", 0, kMostMillis));
  INGOT_ASSIGN_OR_RETURN(int32_t left, Tokens(base::Find(line, "input_length"), "input_length", 1));
  INGOT_ASSIGN_OR_RETURN(const int32_t answer, Tokens(base::Find(line, "output_length"), "output_length", 0));
  if (std::ssize(*ids) != (left + kMooncakeTokens - 1) / kMooncakeTokens) {
    return Wrong("hash_ids", absl::StrCat("one id per ", kMooncakeTokens, " tokens of input_length"));
  }
  TraceCall call;
  for (const json::value& id : *ids) {
    INGOT_ASSIGN_OR_RETURN(const int64_t content, Number(&id, "hash_ids", 0, INT64_MAX));
    const auto tokens = static_cast<int32_t>(std::min<int64_t>(left, kMooncakeTokens));
    call.added.push_back({ContentOf(kBlock, static_cast<uint64_t>(content)), tokens});
    left -= tokens;
  }
  call.answer = {ContentOf(kAnswer, number), std::max(answer, 1)};
  return TraceSession{.start_seconds = static_cast<double>(at) * 1e-3, .episode = false, .calls = {std::move(call)}};
}

absl::StatusOr<TraceSession> ParseLine(std::string_view text, uint64_t number) {
  INGOT_ASSIGN_OR_RETURN(const json::value line, base::ParseJson(text));
  if (base::Find(line, "turns") != nullptr) return ParseEpisode(line, number);
  if (base::Find(line, "hash_ids") != nullptr) return ParseRequest(line, number);
  return absl::InvalidArgumentError(
      "it has neither 'turns' (an episode) nor 'hash_ids' (a request of Mooncake's trace)");
}

}  // namespace

absl::StatusOr<Trace> ParseTrace(std::string_view text) {
  Trace trace;
  for (uint64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    absl::StatusOr<TraceSession> session = ParseLine(line, number);
    if (!session.ok()) return base::Annotate(session.status(), absl::StrCat("line ", number));
    trace.push_back(*std::move(session));
  }
  if (trace.empty()) return absl::InvalidArgumentError("the trace has no lines");
  return trace;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  absl::StatusOr<Trace> trace = ParseTrace(text);
  if (!trace.ok()) return base::Annotate(trace.status(), path);
  return trace;
}

}  // namespace ingot::rollout
