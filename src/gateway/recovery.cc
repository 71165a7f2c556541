// Gateway::Recover: takes over the pool's open episodes, and rebuilds their histories from recorded calls.
#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/log.h"
#include "gateway/gateway.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/recorded_message.h"
#include "tree/contexts.h"

namespace ingot::gateway {
namespace {

// The segments of a recorded tree by key.
class Pieces {
 public:
  explicit Pieces(v1::EpisodeTree& tree) {
    for (auto& [hex, segment] : *tree.mutable_segments()) {
      Piece piece = MakePiece(std::move(segment));
      by_key_[piece.key] = std::move(piece);
    }
  }
  // DATA_LOSS names a key that has no segment.
  template <typename Keys>
  absl::Status Append(const Keys& keys, size_t first, std::vector<Piece>& to) const {
    for (size_t i = first; i < static_cast<size_t>(keys.size()); ++i) {
      const auto it = by_key_.find(keys[i]);
      if (it == by_key_.end()) return absl::DataLossError(absl::StrCat("segment ", i, " of a call is not stored"));
      to.push_back(it->second);
    }
    return absl::OkStatus();
  }

 private:
  std::map<std::string, Piece> by_key_;
};

bool Begins(const std::vector<const Piece*>& path, const std::vector<std::string>& keys) {
  if (path.size() > keys.size()) return false;
  return std::equal(path.begin(), path.end(), keys.begin(),
                    [](const Piece* piece, const std::string& key) { return piece->key == key; });
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

History::Ending EndingOf(const v1::Call& call, std::string stop, const std::vector<Piece>& sampled) {
  History::Ending ending{.stops = {call.sampling().stop().begin(), call.sampling().stop().end()},
                         .stop = std::move(stop)};
  if (sampled.empty()) return ending;
  const auto& ids = sampled.back().segment->token_ids();
  const auto& ends = call.sampling().stop_token_ids();
  const bool ended = !ids.empty() && std::find(ends.begin(), ends.end(), ids[ids.size() - 1]) != ends.end();
  ending.text_ids = ids.size() - (ended ? 1 : 0);
  return ending;
}

// The history of an episode's recorded calls. A call whose parent cannot be continued becomes a root with its whole
// path.
absl::StatusOr<History> HistoryOf(v1::EpisodeTree& tree) {
  const Pieces pieces(tree);
  const tree::Contexts contexts(tree.calls());
  History history;
  std::map<std::string, int> index;  // in the history, by call id
  for (const v1::Call& call : tree.calls()) {
    if (call.asked_key().empty()) continue;
    const auto asked = base::KeyOfBytes(call.asked_key());
    const auto asked_no_tools = base::KeyOfBytes(call.asked_key_no_tools());
    if (!asked.has_value() || !asked_no_tools.has_value()) {
      return absl::DataLossError(
          absl::StrCat("the keys of what call ", call.call_id(), " was asked are no content keys"));
    }
    INGOT_ASSIGN_OR_RETURN(DeliveredMessage delivered, ReadDelivered(call.delivered_json()));
    const auto parent = index.find(call.parent_call_id());
    int parent_index = parent == index.end() ? -1 : parent->second;
    // A call may continue a prefix of its parent's answer; then its path does not begin with the parent's.
    INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> context, contexts.KeysOf(call));
    if (!Begins(history.Path(parent_index), context)) parent_index = -1;
    const size_t inherited = history.Path(parent_index).size();
    History::Call known;
    known.call_id = call.call_id();
    known.parent = parent_index;
    known.text_key = call.prompt_text_key();
    known.thread = call.branch();
    INGOT_RETURN_IF_ERROR(pieces.Append(context, inherited, known.prompt));
    INGOT_RETURN_IF_ERROR(pieces.Append(call.sampled_keys(), 0, known.sampled));
    known.echoed_arguments = std::move(delivered.echoed_arguments);
    known.ending = EndingOf(call, std::move(delivered.stop), known.sampled);
    index[call.call_id()] = history.Add({*asked, *asked_no_tools}, delivered.message, std::move(known));
  }
  return history;
}

}  // namespace

absl::Status Gateway::Recover() {
  if (core_.parts.pool == nullptr || core_.parts.admission == nullptr) return absl::OkStatus();
  std::vector<std::string> others;
  if (core_.parts.peers != nullptr) {
    INGOT_ASSIGN_OR_RETURN(others, core_.parts.peers->Present());
    std::erase(others, RoleOfGateway(core_.parts.name));
  }
  int taken = 0, lost = 0;
  for (const v1::EpisodePurpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    for (datapool::EpisodePages pages(*core_.parts.pool, purpose, 0, -1, true); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
      for (const v1::Episode& episode : page.episodes()) {
        const bool alone = core_.parts.peers == nullptr;
        const bool served = std::find(others.begin(), others.end(), RoleOfGateway(episode.gateway())) != others.end();
        if (!alone && (served || episode.gateway() == core_.parts.name)) continue;
        const absl::Status status = alone ? GoOnAlone(episode.episode_id()) : Take(episode);
        if (!alone && absl::IsFailedPrecondition(status)) continue;  // it has ended, or another gateway was faster
        ++(status.ok() ? taken : lost);
        if (!status.ok()) INGOT_RETURN_IF_ERROR(EndUnread(episode, status));
      }
    }
  }
  if (taken + lost > 0) {
    INGOT_LOG(info, "{} open episodes of an earlier gateway go on here, {} could not be read", taken, lost);
  }
  return absl::OkStatus();
}

absl::Status Gateway::EndUnread(const v1::Episode& episode, const absl::Status& why) {
  if (absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why)) return why;  // it may be read later
  INGOT_LOG(error, "open episode {} cannot be read, and its sample is tried again: {}", episode.episode_id(),
            why.ToString());
  v1::EndEpisodeRequest end;
  end.set_episode_id(episode.episode_id());
  if (core_.parts.peers != nullptr) end.set_gateway_token(episode.gateway_token() + 1);  // of Take
  end.set_state(v1::EPISODE_FENCED);
  end.set_detail(absl::StrCat("its gateway could not read it: ", why.message()));
  end.set_ended_unix_ns(core_.parts.clock->UnixNanos());
  const absl::Status ended = core_.parts.pool->EndEpisode(end);
  if (!ended.ok()) INGOT_LOG(error, "its end is not stored: {}", ended.ToString());
  return absl::OkStatus();
}

absl::Status Gateway::GoOnAlone(const std::string& episode_id) {
  v1::GetEpisodeRequest request;
  request.set_episode_id(episode_id);
  request.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree tree, core_.parts.pool->GetEpisode(request));
  GoOn(std::move(tree));
  return absl::OkStatus();
}

void Gateway::GoOn(v1::EpisodeTree tree) {
  Episode::EarlierCalls recorded;
  for (const v1::Call& call : tree.calls()) {
    recorded.next_sequence = std::max(recorded.next_sequence, call.sequence() + 1);
    recorded.tokens += TokensOf(tree, call);
    recorded.calls[call.sequence()] = call.call_id();
  }
  auto history = HistoryOf(tree);
  if (!history.ok()) {
    // The episode goes on with an empty history: its prompts are rendered anew.
    INGOT_LOG(error, "the history of open episode {}: {}", tree.episode().episode_id(), history.status().ToString());
    history = History();
  }
  recorded.history = *std::move(history);
  const auto now = core_.parts.clock->Now();
  const std::chrono::nanoseconds age(core_.parts.clock->UnixNanos() - tree.episode().opened_unix_ns());
  const v1::EpisodeLimits limits = LimitsFor(tree.episode().limits());
  const bool admitted = tree.episode().purpose() != v1::PURPOSE_SERVE;
  auto episode = std::make_shared<Episode>(std::move(*tree.mutable_episode()), limits, admitted, std::move(recorded),
                                           now - std::max(age, std::chrono::nanoseconds(0)), *core_.parts.clock);
  base::MutexLock lock(mu_);
  // This gateway may have had it before another one took it for a while.
  if (const auto earlier = by_id_.find(episode->id()); earlier != by_id_.end()) earlier->second->MarkTaken();
  by_id_[episode->id()] = episode;
  by_key_[episode->key_hash()] = episode;
}

}  // namespace ingot::gateway
