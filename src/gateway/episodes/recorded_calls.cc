#include "gateway/episodes/recorded_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/checksum.h"
#include "base/log.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/recorded_message.h"
#include "tree/contexts.h"

namespace ingot::gateway {
namespace {

constexpr int kMaxTrunks = 64;  // between an episode and its root trunk

// A recorded tree's segments, by key.
class Pieces {
 public:
  explicit Pieces(v1::EpisodeTree& tree) {
    for (auto& [hex, segment] : *tree.mutable_segments()) {
      SegmentRef ref = MakeSegmentRef(std::move(segment));
      by_key_[ref.key] = std::move(ref);
    }
  }
  // Returns DATA_LOSS if a key has no segment. The error contains the key.
  template <typename Keys>
  absl::Status Append(const Keys& keys, size_t first, std::vector<SegmentRef>& to) const {
    for (size_t i = first; i < static_cast<size_t>(keys.size()); ++i) {
      const auto it = by_key_.find(keys[i]);
      if (it == by_key_.end()) return absl::DataLossError(absl::StrCat("segment ", i, " of a call is not stored"));
      to.push_back(it->second);
    }
    return absl::OkStatus();
  }

 private:
  std::map<std::string, SegmentRef> by_key_;
};

bool Begins(const std::vector<const SegmentRef*>& path, const std::vector<std::string>& keys) {
  if (path.size() > keys.size()) return false;
  return std::equal(path.begin(), path.end(), keys.begin(),
                    [](const SegmentRef* ref, const std::string& key) { return ref->key == key; });
}

template <typename Keys>
int64_t IdsIn(const v1::EpisodeTree& tree, const Keys& keys) {
  int64_t ids = 0;
  for (const std::string& key : keys) {
    const auto segment = tree.segments().find(base::Hex(key));
    if (segment != tree.segments().end()) ids += segment->second.token_ids_size();
  }
  return ids;
}

int64_t TokensOf(const v1::EpisodeTree& tree, const v1::Call& call) {
  return call.context_tokens() + IdsIn(tree, call.sampled_keys());
}

// Returns the version of the call's last sampled id; -1 = it has none.
int64_t LastVersion(const v1::EpisodeTree& tree, const v1::Call& call) {
  if (call.sampled_keys().empty()) return -1;
  const auto found = tree.segments().find(base::Hex(*call.sampled_keys().rbegin()));
  if (found == tree.segments().end() || found->second.versions().empty()) return -1;
  return found->second.versions().rbegin()->version();
}

History::Ending EndingOf(const v1::Call& call, std::string stop, const std::vector<SegmentRef>& sampled) {
  History::Ending ending{.stops = {call.sampling().stop().begin(), call.sampling().stop().end()},
                         .stop = std::move(stop)};
  if (sampled.empty()) return ending;
  for (const SegmentRef& ref : sampled) ending.text_ids += ref.size();
  const auto& ids = sampled.back().segment->token_ids();
  const auto& ends = call.sampling().stop_token_ids();
  const bool ended = !ids.empty() && std::find(ends.begin(), ends.end(), ids[ids.size() - 1]) != ends.end();
  ending.text_ids -= ended ? 1 : 0;
  return ending;
}

// Builds the history for a recorded tree. A call whose parent cannot be continued becomes a root with its whole path.
absl::StatusOr<History> HistoryOf(v1::EpisodeTree& tree) {
  const Pieces refs(tree);
  const tree::Contexts contexts(tree.calls());
  History history;
  std::map<std::string, int> index;  // index in the history, by call id
  for (const v1::Call& call : tree.calls()) {
    if (call.asked_key().empty()) continue;
    const auto asked = base::KeyOfBytes(call.asked_key());
    const auto asked_no_tools = base::KeyOfBytes(call.asked_key_no_tools());
    if (!asked.has_value() || !asked_no_tools.has_value()) {
      return absl::DataLossError(
          absl::StrCat("asked_key or asked_key_no_tools of call ", call.call_id(), " is not a content key"));
    }
    INGOT_ASSIGN_OR_RETURN(DeliveredMessage delivered, ReadDelivered(call.delivered_json()));
    const auto parent = index.find(call.parent_call_id());
    int parent_index = parent == index.end() ? -1 : parent->second;
    // A call may continue a prefix of its parent's answer. Its path then does not begin with the parent's path.
    INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> context, contexts.KeysOf(call));
    if (!Begins(history.Path(parent_index), context)) parent_index = -1;
    const size_t inherited = history.Path(parent_index).size();
    History::Call known;
    known.call_id = call.call_id();
    known.parent = parent_index;
    known.text_key = call.prompt_text_key();
    known.thread = call.branch();
    INGOT_RETURN_IF_ERROR(refs.Append(context, inherited, known.prompt));
    INGOT_RETURN_IF_ERROR(refs.Append(call.sampled_keys(), 0, known.sampled));
    known.echoed_arguments = std::move(delivered.echoed_arguments);
    known.ending = EndingOf(call, std::move(delivered.stop), known.sampled);
    index[call.call_id()] = history.Add({*asked, *asked_no_tools}, delivered.message, std::move(known));
  }
  return history;
}

// Inserts the trunk's calls up to the fork before the episode's own calls. Does the same recursively for the trunk's
// own trunk. Returns the number of calls that belong to trunks.
absl::StatusOr<int> AddTrunk(datapool::Client& pool, int depth, v1::EpisodeTree& tree) {
  const v1::EpisodeFork& fork = tree.episode().fork();
  if (fork.episode_id().empty()) return 0;
  if (depth == kMaxTrunks) return absl::DataLossError("an episode is its own trunk");
  v1::GetEpisodeRequest request;
  request.set_episode_id(fork.episode_id());
  request.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree trunk, pool.GetEpisode(request));
  const auto last = std::find_if(trunk.calls().begin(), trunk.calls().end(),
                                 [&](const v1::Call& call) { return call.call_id() == fork.call_id(); });
  if (last == trunk.calls().end() && !fork.call_id().empty()) {
    return absl::DataLossError(
        absl::StrCat("the trunk ", fork.episode_id(), " does not contain call ", fork.call_id(), ", its fork"));
  }
  const int kept = last == trunk.calls().end() ? 0 : static_cast<int>(last - trunk.calls().begin()) + 1;
  trunk.mutable_calls()->DeleteSubrange(kept, trunk.calls_size() - kept);
  INGOT_RETURN_IF_ERROR(AddTrunk(pool, depth + 1, trunk).status());
  const int calls = trunk.calls_size();
  for (v1::Call& call : *tree.mutable_calls()) *trunk.add_calls() = std::move(call);
  tree.mutable_calls()->Swap(trunk.mutable_calls());
  for (auto& [key, segment] : *trunk.mutable_segments()) (*tree.mutable_segments())[key] = std::move(segment);
  return calls;
}

}  // namespace

absl::StatusOr<Episode::EarlierCalls> EarlierCallsOf(datapool::Client& pool, v1::EpisodeTree& tree) {
  Episode::EarlierCalls recorded;
  for (const v1::Call& call : tree.calls()) recorded.numbers.recorded[call.sequence()] = call.call_id();
  INGOT_ASSIGN_OR_RETURN(const int of_trunk, AddTrunk(pool, 0, tree));
  for (int i = 0; i < tree.calls_size(); ++i) {
    const v1::Call& call = tree.calls(i);
    recorded.numbers.next = std::max(recorded.numbers.next, call.sequence() + 1);
    recorded.tokens += TokensOf(tree, call);
    if (call.weights() == v1::WEIGHTS_FOLLOW) recorded.version = std::max(recorded.version, LastVersion(tree, call));
    if (i >= of_trunk) continue;
    recorded.numbers.first = recorded.numbers.next;
    recorded.trunk_calls.insert(call.call_id());
  }
  recorded.numbers.first_turn = of_trunk;
  recorded.numbers.unrecorded = recorded.numbers.next - tree.calls_size();
  auto history = HistoryOf(tree);
  if (!history.ok()) {
    INGOT_LOG(error, "the history of open episode {}: {}", tree.episode().episode_id(), history.status().ToString());
    history = History();
  }
  recorded.history = *std::move(history);
  return recorded;
}

std::string SnapshotId(const std::string& episode_id, int32_t calls) { return absl::StrCat(episode_id, ".", calls); }

absl::StatusOr<SnapshotPlace> PlaceOfSnapshot(const std::string& snapshot_id) {
  const size_t dot = snapshot_id.rfind('.');
  SnapshotPlace place;
  if (dot == std::string::npos || dot == 0 || !absl::SimpleAtoi(snapshot_id.substr(dot + 1), &place.calls) ||
      place.calls < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", snapshot_id, "' is not a snapshot id: use EPISODE.CALLS"));
  }
  place.episode_id = snapshot_id.substr(0, dot);
  return place;
}

v1::EpisodeFork ForkOf(const v1::EpisodeTree& trunk, std::optional<int32_t> calls) {
  v1::EpisodeFork fork;
  fork.set_episode_id(trunk.episode().episode_id());
  int32_t after = 0;
  for (const v1::Call& call : trunk.calls()) {
    if (calls.has_value() && call.sequence() >= *calls) break;
    fork.set_call_id(call.call_id());
    after = call.sequence() + 1;
  }
  fork.set_snapshot_id(SnapshotId(fork.episode_id(), calls.value_or(after)));
  return fork;
}

}  // namespace ingot::gateway
