#include <map>
#include <utility>

#include "base/checksum.h"
#include "base/placeholders.h"
#include "tree/contexts.h"
#include "tree/forest.h"

namespace ingot::tree {
namespace {

absl::StatusOr<const v1::Segment*> FindSegment(const v1::EpisodeTree& tree, const std::string& key) {
  const auto found = tree.segments().find(base::Hex(key));
  if (found == tree.segments().end()) {
    return absl::DataLossError(absl::StrCat("segment ", base::Hex(key), " is missing"));
  }
  return &found->second;
}

// Returns `context` with the segment appended, as one run per stretch of text or placeholders. Returns DATA_LOSS if its
// placeholders are not valid.
absl::StatusOr<TokenPath> Extended(TokenPath context, const v1::Segment& segment) {
  const std::string fault = base::PlaceholdersFault(segment.placeholders(), segment.token_ids_size());
  if (!fault.empty()) return absl::DataLossError(fault);
  const auto ids = segment.token_ids().begin();
  int begin = 0;
  for (const v1::Placeholders& run : segment.placeholders()) {
    const int end = run.first() + run.count();
    context = context.Then({ids + begin, ids + run.first()}).Then({ids + run.first(), ids + end}, run.content());
    begin = end;
  }
  return context.Then({ids + begin, segment.token_ids().end()});
}

// Appends a sampled segment's routes to the call. Returns DATA_LOSS if the number of experts per id is not whole or
// differs from the call's earlier ids.
absl::Status AppendRoutesOf(const v1::Segment& segment, CallPath& call) {
  const std::string& bytes = segment.routes();
  const size_t ids = static_cast<size_t>(segment.token_ids_size()), before = call.sampled.size();
  const size_t of_each = bytes.size() / 2 / ids;
  if (bytes.size() != 2 * of_each * ids || (before > 0 && call.routes.size() != of_each * before)) {
    return absl::DataLossError(absl::StrCat("it has ", bytes.size(), " bytes of routes for ", ids, " ids, but the ",
                                            before, " ids before it have ", 2 * call.routes.size()));
  }
  AppendRoutes(bytes, call.routes);
  return absl::OkStatus();
}

// Appends a sampled segment to the call. Returns DATA_LOSS if it is not sampled, has placeholders, or has log-probs,
// versions, or routes that do not match its ids.
absl::Status AppendSampled(const v1::Segment& segment, CallPath& call) {
  const int ids = segment.token_ids_size();
  if (segment.source() != v1::SOURCE_SAMPLED) return absl::DataLossError("it is not sampled");
  if (!segment.placeholders().empty()) return absl::DataLossError("a model sampled its placeholders");
  if (segment.logprobs_size() != ids) {
    return absl::DataLossError(absl::StrCat("it has ", ids, " ids and ", segment.logprobs_size(), " log-probs"));
  }
  int64_t covered = 0;
  for (const v1::VersionRun& run : segment.versions()) {
    if (run.count() <= 0 || covered + run.count() > ids) {
      return absl::DataLossError(absl::StrCat("its versions do not cover its ", ids, " ids"));
    }
    covered += run.count();
    call.versions.insert(call.versions.end(), run.count(), run.version());
    call.kv_mixed.insert(call.kv_mixed.end(), run.count(), run.kv_mixed() ? 1 : 0);
  }
  if (covered != ids) return absl::DataLossError(absl::StrCat("its versions cover ", covered, " of ", ids, " ids"));
  INGOT_RETURN_IF_ERROR(AppendRoutesOf(segment, call));
  call.sampled.insert(call.sampled.end(), segment.token_ids().begin(), segment.token_ids().end());
  call.logprobs.insert(call.logprobs.end(), segment.logprobs().begin(), segment.logprobs().end());
  return absl::OkStatus();
}

class Paths {
 public:
  explicit Paths(const v1::EpisodeTree& tree) : tree_(tree), contexts_(tree.calls()) {}

  absl::StatusOr<CallPath> PathOf(const v1::Call& call) {
    CallPath path;
    path.call_id = call.call_id();
    path.temperature = call.sampling().temperature();
    INGOT_ASSIGN_OR_RETURN(path.context, ContextOf(call));
    for (const std::string& key : call.sampled_keys()) {
      INGOT_ASSIGN_OR_RETURN(const v1::Segment* segment, FindSegment(tree_, key));
      INGOT_RETURN_IF_ERROR(base::Annotate(AppendSampled(*segment, path), absl::StrCat("segment ", base::Hex(key))));
    }
    return path;
  }

 private:
  absl::StatusOr<TokenPath> ContextOf(const v1::Call& call) {
    if (const auto known = known_.find(&call); known != known_.end()) return known->second;
    INGOT_ASSIGN_OR_RETURN(const v1::Call* continued, contexts_.ContinuedBy(call));
    TokenPath context;
    if (continued != nullptr) {
      const auto parent = known_.find(continued);
      if (parent == known_.end()) return OfChain(call);
      context = parent->second;
      for (int i = 0; i < call.continued_segments(); ++i) {
        INGOT_RETURN_IF_ERROR(Extend(continued->sampled_keys(i), context));
      }
    }
    for (const std::string& key : call.context_keys()) INGOT_RETURN_IF_ERROR(Extend(key, context));
    return known_[&call] = context;
  }

  // Returns the context of a call that precedes its parent call in the episode's list.
  absl::StatusOr<TokenPath> OfChain(const v1::Call& call) {
    INGOT_ASSIGN_OR_RETURN(std::vector<const v1::Call*> chain, contexts_.ChainOf(call));
    for (; chain.size() > 1; chain.pop_back()) INGOT_RETURN_IF_ERROR(ContextOf(*chain.back()).status());
    return ContextOf(call);
  }

  absl::Status Extend(const std::string& key, TokenPath& context) {
    INGOT_ASSIGN_OR_RETURN(const v1::Segment* segment, FindSegment(tree_, key));
    TokenPath& further = further_[{context.key(), segment}];
    if (further.empty()) {
      absl::StatusOr<TokenPath> extended = Extended(context, *segment);
      if (!extended.ok()) return base::Annotate(extended.status(), absl::StrCat("segment ", base::Hex(key)));
      further = *std::move(extended);
    }
    context = further;
    return absl::OkStatus();
  }

  const v1::EpisodeTree& tree_;
  const Contexts contexts_;
  std::map<const v1::Call*, TokenPath> known_;
  std::map<std::pair<const void*, const v1::Segment*>, TokenPath> further_;  // by (key of the previous path, segment)
};

}  // namespace

void AppendRoutes(std::string_view bytes, std::vector<uint16_t>& routes) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto low = static_cast<uint8_t>(bytes[i]), high = static_cast<uint8_t>(bytes[i + 1]);
    routes.push_back(static_cast<uint16_t>(low | (high << 8)));
  }
}

std::vector<int32_t> CallPath::Tokens() const {
  std::vector<int32_t> tokens = context.Tokens();
  tokens.insert(tokens.end(), sampled.begin(), sampled.end());
  return tokens;
}

absl::StatusOr<std::vector<CallPath>> CallPathsOf(const v1::EpisodeTree& tree, int32_t episode, int32_t group) {
  Paths paths(tree);
  std::vector<CallPath> calls;
  calls.reserve(tree.calls_size());
  for (const v1::Call& call : tree.calls()) {
    auto path = paths.PathOf(call);
    if (!path.ok()) return base::Annotate(path.status(), absl::StrCat("call ", call.call_id()));
    path->episode = episode;
    path->group = group;
    calls.push_back(*std::move(path));
  }
  return calls;
}

absl::StatusOr<CallPath> CallPathOf(const v1::EpisodeTree& tree, int index) {
  const v1::Call& call = tree.calls(index);
  auto path = Paths(tree).PathOf(call);
  if (!path.ok()) return base::Annotate(path.status(), absl::StrCat("call ", call.call_id()));
  return path;
}

}  // namespace ingot::tree
