// Random operations on a pool and on a plain model of it. Both return the same codes, and hold the same records at the
// end and after reopening.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "base/checksum.h"
#include "datapool/make_pool.h"
#include "datapool/sharded_pool.h"
#include "tree/contexts.h"

namespace ingot::datapool::testing {

class Model {
 public:
  struct Episode {
    v1::Episode opened;
    v1::EpisodeState state = v1::EPISODE_OPEN;
    double reward = 0;
    bool has_reward = false;
    std::map<std::string, double> call_rewards;
    bool fenced_by_newer = false;
    std::map<int, v1::Call> calls;
    std::set<std::string> keys;
  };

  absl::StatusCode StoreEpisode(const v1::StoreEpisodeRequest& request) {
    const v1::Episode& episode = request.episode();
    if (const auto found = episodes.find(episode.episode_id()); found != episodes.end()) {
      return found->second.opened.SerializeAsString() == episode.SerializeAsString() ? absl::StatusCode::kOk
                                                                                     : absl::StatusCode::kAlreadyExists;
    }
    std::vector<Episode*> older;
    std::map<int, Episode*> attempts;
    for (auto& [id, other] : episodes) {
      const v1::EpisodeRef& ref = other.opened.ref();
      if (other.opened.purpose() != episode.purpose() || ref.group_id() != episode.ref().group_id() ||
          ref.sample_index() != episode.ref().sample_index()) {
        continue;
      }
      attempts[ref.attempt()] = &other;
    }
    if (attempts.contains(episode.ref().attempt())) return absl::StatusCode::kAlreadyExists;
    if (!attempts.empty() && attempts.rbegin()->first > episode.ref().attempt()) {
      return absl::StatusCode::kFailedPrecondition;
    }
    for (auto& [attempt, other] : attempts) {
      if (other->state == v1::EPISODE_OPEN) {
        other->state = v1::EPISODE_FENCED;
        other->fenced_by_newer = true;
      }
    }
    episodes[episode.episode_id()].opened = episode;
    return absl::StatusCode::kOk;
  }

  absl::StatusCode AppendCall(const v1::AppendCallRequest& request) {
    const v1::Call& call = request.call();
    for (const auto& [id, episode] : episodes) {
      for (const auto& [sequence, stored] : episode.calls) {
        if (stored.call_id() != call.call_id()) continue;
        return stored.SerializeAsString() == call.SerializeAsString() ? absl::StatusCode::kOk
                                                                      : absl::StatusCode::kAlreadyExists;
      }
    }
    const auto found = episodes.find(call.episode_id());
    if (found == episodes.end()) return absl::StatusCode::kNotFound;
    Episode& episode = found->second;
    if (episode.state != v1::EPISODE_OPEN) return absl::StatusCode::kFailedPrecondition;
    if (episode.calls.contains(call.sequence())) return absl::StatusCode::kAlreadyExists;
    if (call.has_continued_segments()) {
      const auto parent = std::find_if(episode.calls.begin(), episode.calls.end(),
                                       [&](const auto& one) { return one.second.call_id() == call.parent_call_id(); });
      if (parent == episode.calls.end()) return absl::StatusCode::kFailedPrecondition;
      if (call.continued_segments() > parent->second.sampled_keys_size()) return absl::StatusCode::kInvalidArgument;
    }
    std::set<std::string> sent;
    for (const auto& segment : request.segments()) sent.insert(tree::SegmentKey(segment));
    std::set<std::string> named(call.context_keys().begin(), call.context_keys().end());
    named.insert(call.sampled_keys().begin(), call.sampled_keys().end());
    for (const auto& key : named) {
      if (!sent.contains(key) && !Stored(episode.opened, key)) return absl::StatusCode::kFailedPrecondition;
    }
    for (const auto& segment : request.segments()) segments[tree::SegmentKey(segment)] = segment;
    if (call.context_tokens() != PromptTokens(episode, call)) {
      return absl::StatusCode::kInvalidArgument;
    }
    episode.calls[call.sequence()] = call;
    episode.keys.insert(named.begin(), named.end());
    return absl::StatusCode::kOk;
  }

  absl::StatusCode StoreReward(const v1::StoreRewardRequest& request) {
    const auto found = episodes.find(request.episode_id());
    if (found == episodes.end()) return absl::StatusCode::kNotFound;
    Episode& episode = found->second;
    bool news = !episode.has_reward || episode.reward != request.reward();
    bool known = true;
    for (const auto& [id, reward] : request.call_rewards()) {
      const auto reported = episode.call_rewards.find(id);
      news = news || reported == episode.call_rewards.end() || reported->second != reward;
      known = known && std::any_of(episode.calls.begin(), episode.calls.end(),
                                   [&, &id = id](const auto& call) { return call.second.call_id() == id; });
    }
    if (!news) return absl::StatusCode::kOk;
    if (episode.state != v1::EPISODE_OPEN) return absl::StatusCode::kFailedPrecondition;
    if (!known) return absl::StatusCode::kNotFound;
    episode.has_reward = true;
    episode.reward = request.reward();
    for (const auto& [id, reward] : request.call_rewards()) episode.call_rewards[id] = reward;
    return absl::StatusCode::kOk;
  }

  absl::StatusCode StoreEnd(const v1::StoreEndRequest& request) {
    const auto found = episodes.find(request.episode_id());
    if (found == episodes.end()) return absl::StatusCode::kNotFound;
    Episode& episode = found->second;
    if (episode.state == v1::EPISODE_OPEN) {
      episode.state = request.state();
      if (!request.has_reward()) return absl::StatusCode::kOk;  // what was posted stays
      episode.reward = request.reward();
      episode.has_reward = true;
      episode.call_rewards.clear();
      return absl::StatusCode::kOk;
    }
    const bool same_outcome = !request.has_reward() || (episode.has_reward && episode.reward == request.reward() &&
                                                        episode.call_rewards.empty());
    if (!episode.fenced_by_newer && episode.state == request.state() && same_outcome) return absl::StatusCode::kOk;
    if (episode.state == v1::EPISODE_FENCED) {
      return request.state() == v1::EPISODE_FENCED ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition;
    }
    return absl::StatusCode::kAlreadyExists;
  }

  int64_t AppendJournal(const v1::AppendJournalRequest& request) {
    const auto [at, fresh] = appends.emplace(request.SerializeAsString(), journal.size());
    if (fresh) journal.insert(journal.end(), request.records().begin(), request.records().end());
    return at->second;
  }

  int64_t Trim(int64_t step) {
    std::set<int64_t> gone;
    int64_t last = -1;
    for (const auto& record : journal) {
      if (!record.has_batch() || record.batch().step() >= step) continue;
      for (const int64_t group : record.batch().group_ids()) {
        gone.insert(group);
        last = std::max(last, group);
      }
    }
    for (const auto& record : journal) {
      if (record.has_closed() && record.closed().group_id() < last) gone.insert(record.closed().group_id());
    }
    return std::erase_if(episodes, [&](const auto& entry) {
      return entry.second.opened.purpose() == v1::PURPOSE_TRAIN && gone.contains(entry.second.opened.ref().group_id());
    });
  }

  // REQUIRES: `segments` holds the prompt's segments, and the episode the parent call.
  int64_t PromptTokens(const Episode& episode, const v1::Call& call) const {
    std::vector<v1::Call> calls = {call};
    for (const auto& [sequence, one] : episode.calls) calls.push_back(one);
    const std::vector<std::string> keys = tree::Contexts(calls).KeysOf(call).value();
    int64_t tokens = 0;
    for (const std::string& key : keys) tokens += segments.at(key).token_ids_size();
    return tokens;
  }

  // Whether the group of `for_episode` holds the segment.
  bool Stored(const v1::Episode& for_episode, const std::string& key) const {
    return std::any_of(episodes.begin(), episodes.end(), [&](const auto& entry) {
      return entry.second.keys.contains(key) && GroupOf(entry.second.opened) == GroupOf(for_episode);
    });
  }
  static std::pair<int, int64_t> GroupOf(const v1::Episode& episode) {
    return {episode.purpose(), episode.ref().group_id()};
  }

  std::map<std::string, Episode> episodes;
  std::map<std::string, v1::Segment> segments;
  std::map<std::string, int64_t> appends;
  std::vector<v1::JournalRecord> journal;
};

inline void ExpectEqual(Client& pool, const Model& model) {
  const auto counts = pool.Status().value();
  EXPECT_EQ(counts.episodes(), static_cast<int64_t>(model.episodes.size()));
  EXPECT_EQ(counts.journal_end(), static_cast<int64_t>(model.journal.size()));
  int64_t calls = 0, recorded = 0, listed = 0;
  std::set<std::pair<std::pair<int, int64_t>, std::string>> used;  // by group
  for (const auto& [id, episode] : model.episodes) {
    const auto tree = Get(pool, id);
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(tree->episode().state(), episode.state) << id;
    EXPECT_EQ(tree->episode().reward(), episode.reward);
    EXPECT_EQ(tree->episode().has_reward(), episode.has_reward);
    EXPECT_EQ(std::map(tree->episode().call_rewards().begin(), tree->episode().call_rewards().end()),
              episode.call_rewards);
    ASSERT_EQ(tree->calls_size(), static_cast<int>(episode.calls.size()));
    int at = 0;
    for (const auto& [sequence, call] : episode.calls) {
      EXPECT_EQ(tree->calls(at++).SerializeAsString(), call.SerializeAsString());
      ++calls;
      recorded += model.PromptTokens(episode, call);
      for (const auto& key : call.sampled_keys()) recorded += model.segments.at(key).token_ids_size();
    }
    ASSERT_EQ(tree->segments_size(), static_cast<int>(episode.keys.size()));
    for (const auto& key : episode.keys) {
      EXPECT_EQ(tree->segments().at(base::Hex(key)).SerializeAsString(), model.segments.at(key).SerializeAsString());
      used.emplace(Model::GroupOf(episode.opened), key);
    }
  }
  EXPECT_EQ(counts.calls(), calls);
  EXPECT_EQ(counts.recorded_tokens(), recorded);
  int64_t tokens = 0;
  for (const auto& [group, key] : used) tokens += model.segments.at(key).token_ids_size();
  EXPECT_EQ(counts.segments(), static_cast<int64_t>(used.size()));
  EXPECT_EQ(counts.segment_tokens(), tokens);
  for (const auto purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    v1::ListEpisodesRequest list;
    list.set_purpose(purpose);
    list.set_last_group(-1);
    list.set_all_attempts(true);
    list.set_limit(5);
    std::vector<std::tuple<int64_t, int, int>> order;
    for (bool more = true; more;) {
      const auto page = pool.ListEpisodes(list);
      ASSERT_TRUE(page.ok()) << page.status();
      for (const auto& episode : page->episodes()) {
        order.emplace_back(episode.ref().group_id(), episode.ref().sample_index(), episode.ref().attempt());
      }
      more = page->more();
      EXPECT_LE(page->episodes_size(), 5);
      list.set_after(page->next());
    }
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), order.size());
    listed += static_cast<int64_t>(order.size());
  }
  EXPECT_EQ(listed, counts.episodes());
}

inline v1::AppendCallRequest RandomCall(std::mt19937_64& rng, const std::string& episode) {
  std::vector<v1::Segment> context, sampled;
  for (int i = 1 + rng() % 3; i > 0; --i) {
    const auto id = static_cast<int32_t>(rng() % 12);
    context.push_back(rng() % 3 == 0 ? Sampled({id, 1}) : Prompt({id}));
  }
  if (rng() % 4 != 0) sampled.push_back(Sampled({static_cast<int32_t>(rng() % 12), 1}));
  return Append(episode, static_cast<int>(rng() % 6), context, sampled);
}

// `open` opens the same pool each time; its first opening finds none. `shards`: its number of shards.
using Opener = std::function<absl::StatusOr<std::unique_ptr<Client>>()>;
inline void RunRandomOperations(uint64_t seed, int shards, const Opener& open, int steps = 1500) {
  std::unique_ptr<Client> pool = open().value();
  Model model;
  std::mt19937_64 rng(seed);
  std::map<absl::StatusCode, int> codes;
  for (int step = 0; step < steps; ++step) {
    const std::string id = "e" + std::to_string(rng() % 60);
    const int action = static_cast<int>(rng() % 100);
    if (action < 25) {
      const auto request = Open(id, static_cast<int64_t>(rng() % 10), static_cast<int>(rng() % 2),
                                static_cast<int>(rng() % 4), rng() % 4 == 0 ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN);
      const auto status = pool->StoreEpisode(request);
      ASSERT_EQ(status.code(), model.StoreEpisode(request)) << status;
      ++codes[status.code()];
    } else if (action < 35) {
      auto request = testing::Reward(id, static_cast<double>(rng() % 2));
      if (rng() % 2 == 0) (*request.mutable_call_rewards())[id + "/" + std::to_string(rng() % 6)] = 1;
      if (shards > 1 && request.call_rewards_size() > 0) {
        const std::string call = request.call_rewards().begin()->first;
        request.clear_call_rewards();
        (*request.mutable_call_rewards())[id + call] = 1;
      }
      const auto status = pool->StoreReward(request);
      ASSERT_EQ(status.code(), model.StoreReward(request)) << status;
      ++codes[status.code()];
    } else if (action < 75) {
      v1::AppendCallRequest request = RandomCall(rng, id);
      if (rng() % 5 == 0) request.mutable_call()->set_call_id("c" + std::to_string(rng() % 20));
      // Continues a call of this or another episode, with the right number of context tokens or a guess.
      if (const auto found = model.episodes.find(id); found != model.episodes.end() && rng() % 3 != 0) {
        const auto& calls = found->second.calls;
        const auto parent = calls.find(static_cast<int>(rng() % 6));
        v1::Call& call = *request.mutable_call();
        call.set_parent_call_id(parent == calls.end() ? "e" + std::to_string(rng() % 60) + "/0"
                                                      : parent->second.call_id());
        call.set_continued_segments(static_cast<int>(rng() % 2));
        call.set_context_tokens(1 + static_cast<int64_t>(rng() % 8));
        if (parent != calls.end() && rng() % 8 != 0) {
          int64_t tokens = model.PromptTokens(found->second, parent->second);
          const auto& sampled = parent->second.sampled_keys();
          if (call.continued_segments() <= sampled.size()) {
            for (int i = 0; i < call.continued_segments(); ++i)
              tokens += model.segments.at(sampled[i]).token_ids_size();
          }
          for (int i = 0; i < call.context_keys_size(); ++i) tokens += request.segments(i).token_ids_size();
          call.set_context_tokens(tokens);
        }
      }
      if (rng() % 3 == 0) request.clear_segments();
      // Call ids are unique only per shard.
      if (shards > 1) request.mutable_call()->set_call_id(id + request.call().call_id());
      const auto status = pool->AppendCall(request);
      ASSERT_EQ(status.code(), model.AppendCall(request)) << status;
      ++codes[status.code()];
    } else if (action < 88) {
      const v1::EpisodeState states[] = {v1::EPISODE_FINISHED, v1::EPISODE_FAILED, v1::EPISODE_FENCED};
      auto request = End(id, states[rng() % 3], static_cast<double>(rng() % 2));
      if (rng() % 3 == 0) request.clear_reward();
      const auto status = pool->StoreEnd(request);
      ASSERT_EQ(status.code(), model.StoreEnd(request)) << status;
      ++codes[status.code()];
    } else if (action < 96) {
      const auto request =
          rng() % 2 == 0 ? testing::ClosedRecord(static_cast<int64_t>(rng() % 10))
                         : testing::BatchRecord(static_cast<int64_t>(rng() % 50),
                                                {static_cast<int64_t>(rng() % 10), static_cast<int64_t>(rng() % 10)});
      ASSERT_EQ(pool->AppendJournal(request).value(), model.AppendJournal(request));
    } else if (action < 98) {
      const auto below = static_cast<int64_t>(rng() % 8);
      ASSERT_EQ(testing::TrimBelow(*pool, below), model.Trim(below));
    } else if (rng() % 4 == 0) {
      pool.reset();
      pool = open().value();
    }
  }
  for (const auto code : {absl::StatusCode::kOk, absl::StatusCode::kAlreadyExists, absl::StatusCode::kNotFound,
                          absl::StatusCode::kFailedPrecondition}) {
    EXPECT_GT(codes[code], steps / 75);
  }
  ExpectEqual(*pool, model);
  pool.reset();
  pool = open().value();
  ExpectEqual(*pool, model);
}

}  // namespace ingot::datapool::testing
