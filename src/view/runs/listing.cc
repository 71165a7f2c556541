#include "view/runs/listing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "tree/episode_return.h"
#include "tree/render.h"
#include "view/evaluation/evaluation.h"
#include "view/json/trajectory_json.h"

namespace ingot::view {
namespace {

constexpr int64_t kBlock = 16;  // number of groups read at a time
constexpr int64_t kMaxEvaluations = 1 << 20;

// Searches blocks of groups, from newest to oldest.
class Search {
 public:
  Search(const EpisodeFilter& filter, datapool::Client& pool, const text::Tokenizer& tokenizer,
         const ListBounds& bounds, const base::Clock& clock)
      : filter_(filter),
        pool_(pool),
        tokenizer_(tokenizer),
        bounds_(bounds),
        clock_(clock),
        end_(clock.Now() + bounds.time) {}

  bool Done() const { return found_.size() >= bounds_.limit || clock_.Now() >= end_; }

  // Returns all matching episodes in groups [first, last], newest group first.
  absl::Status Read(int64_t first, int64_t last) {
    std::vector<v1::Episode> episodes;
    for (datapool::EpisodePages pages(pool_, filter_.purpose, first, last); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pages.Next());
      for (v1::Episode& episode : *page.mutable_episodes()) episodes.push_back(std::move(episode));
    }
    std::stable_sort(episodes.begin(), episodes.end(), [](const v1::Episode& a, const v1::Episode& b) {
      return a.ref().group_id() > b.ref().group_id();
    });
    for (const v1::Episode& episode : episodes) {
      ++looked_at_;
      INGOT_ASSIGN_OR_RETURN(const bool matches, Matches(episode));
      if (matches) found_.push_back(EpisodeJson(episode));
    }
    return absl::OkStatus();
  }

  base::json::object Result(std::optional<int64_t> next) {
    base::json::object result{{"episodes", std::move(found_)}, {"looked_at", looked_at_}, {"next", nullptr}};
    if (next) result["next"] = absl::StrCat(*next);
    return result;
  }

 private:
  absl::StatusOr<bool> Matches(const v1::Episode& episode) {
    if (!filter_.Allows(episode)) return false;
    if (!filter_.NeedsCalls()) return true;
    v1::GetEpisodeRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_with_calls(true);
    const absl::StatusOr<v1::EpisodeTree> tree = pool_.GetEpisode(request);
    if (absl::IsNotFound(tree.status())) return false;  // trimmed in the meantime
    INGOT_RETURN_IF_ERROR(tree.status());
    const bool forked =
        filter_.fork.empty() || std::any_of(tree->calls().begin(), tree->calls().end(), [&](const v1::Call& call) {
          return filter_.fork == "any" ? !call.fork_cause().empty() : call.fork_cause() == filter_.fork;
        });
    return forked && (filter_.text.empty() || ContainsText(*tree, tokenizer_, filter_.text));
  }

  const EpisodeFilter& filter_;
  datapool::Client& pool_;
  const text::Tokenizer& tokenizer_;
  const ListBounds bounds_;
  const base::Clock& clock_;
  const std::chrono::nanoseconds end_;
  base::json::array found_;
  int64_t looked_at_ = 0;
};

// Each evaluated version has its own range of groups. An unlisted version costs one empty page.
absl::StatusOr<base::json::object> ListEvaluations(Search& search, const EpisodeFilter& filter, int64_t newest) {
  int64_t version = filter.version.value_or(newest);
  const int64_t oldest = filter.version.value_or(0);
  for (; version >= oldest && !search.Done(); --version) {
    INGOT_RETURN_IF_ERROR(search.Read(version * kEvalGroups, (version + 1) * kEvalGroups - 1));
  }
  return search.Result(version >= oldest ? std::optional(version) : std::nullopt);
}

}  // namespace

absl::StatusOr<EpisodeFilter> EpisodeFilter::Of(const Query& query) {
  EpisodeFilter filter;
  INGOT_ASSIGN_OR_RETURN(const std::string kind, query.OneOf("kind", {"train", "eval"}));
  if (kind == "eval") filter.purpose = v1::PURPOSE_EVAL;
  INGOT_ASSIGN_OR_RETURN(filter.step, query.Integer("step"));
  INGOT_ASSIGN_OR_RETURN(filter.group, query.Integer("group"));
  INGOT_ASSIGN_OR_RETURN(filter.version, query.Integer("version"));
  INGOT_ASSIGN_OR_RETURN(filter.reward_min, query.Number("reward_min"));
  INGOT_ASSIGN_OR_RETURN(filter.reward_max, query.Number("reward_max"));
  std::vector<std::string> states;
  for (int state = v1::EPISODE_UNSPECIFIED + 1; state <= v1::EpisodeState_MAX; ++state) {
    states.push_back(tree::StateName(static_cast<v1::EpisodeState>(state)));
  }
  INGOT_ASSIGN_OR_RETURN(filter.state, query.OneOf("state", states));
  filter.domain = query.Text("domain");
  filter.scaffold = query.Text("scaffold");
  filter.task = query.Text("task");
  filter.cause = query.Text("cause");
  filter.fork = query.Text("fork");
  filter.text = query.Text("text");
  return filter;
}

bool EpisodeFilter::Allows(const v1::Episode& episode) const {
  const auto is = [](const std::string& wanted, const std::string& value) { return wanted.empty() || wanted == value; };
  const double reward = tree::ReturnOf(episode);
  return is(domain, episode.task().domain()) && is(scaffold, episode.scaffold()) && is(cause, episode.cause()) &&
         is(state, tree::StateName(episode.state())) && is(task, episode.task().task_id()) &&
         reward >= reward_min.value_or(reward) && reward <= reward_max.value_or(reward);
}

absl::StatusOr<base::json::object> ListJson(const EpisodeFilter& filter, const std::string& cursor,
                                            const Journal& journal, datapool::Client& pool,
                                            const text::Tokenizer& tokenizer, const ListBounds& bounds,
                                            const base::Clock& clock) {
  Search search(filter, pool, tokenizer, bounds, clock);
  int64_t at = 0;
  if (!cursor.empty() && !absl::SimpleAtoi(cursor, &at)) {
    return absl::InvalidArgumentError("after: not a cursor of this list");
  }
  if (filter.purpose == v1::PURPOSE_EVAL) {
    if (filter.group) {
      INGOT_RETURN_IF_ERROR(search.Read(*filter.group, *filter.group));
      return search.Result(std::nullopt);
    }
    const int64_t newest = cursor.empty() ? std::min(journal.batches() + 1, kMaxEvaluations) : at;
    return ListEvaluations(search, filter, newest);
  }
  if (filter.group) {
    INGOT_RETURN_IF_ERROR(search.Read(*filter.group, *filter.group));
    return search.Result(std::nullopt);
  }
  if (filter.step) {
    const std::optional<JournalBatch> batch = journal.Batch(*filter.step);
    std::vector<int64_t> groups = batch ? batch->groups : std::vector<int64_t>{};
    for (auto id = static_cast<size_t>(at); id < groups.size(); ++id) {
      if (search.Done()) return search.Result(static_cast<int64_t>(id));
      INGOT_RETURN_IF_ERROR(search.Read(groups[id], groups[id]));
    }
    return search.Result(std::nullopt);
  }
  int64_t last = cursor.empty() ? journal.next_group() - 1 : at;
  while (last >= 0 && !search.Done()) {
    const int64_t first = std::max<int64_t>(0, last - kBlock + 1);
    INGOT_RETURN_IF_ERROR(search.Read(first, last));
    last = first - 1;
  }
  return search.Result(last >= 0 ? std::optional(last) : std::nullopt);
}

}  // namespace ingot::view
