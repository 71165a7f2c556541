#include "view/runs/run_view.h"

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "view/json/curve_json.h"
#include "view/json/live_json.h"
#include "view/json/trajectory_json.h"
#include "view/json/window_json.h"
#include "view/runs/accounts.h"
#include "view/runs/end_uncalled.h"
#include "view/runs/listing.h"
#include "view/runs/supervised.h"
#include "view/safe_text.h"

namespace ingot::view {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr size_t kMaxAnswers = 64;
constexpr size_t kEfficiencySteps = 10;
constexpr size_t kWaitSteps = 64;    // number of steps whose waits are explained in one response
constexpr size_t kCountGroups = 16;  // number of dropped groups whose tokens are counted in one response
constexpr size_t kMaxCounted = 4096;
constexpr size_t kTreeText = 600;  // limit in bytes on a node's text

object RowJson(const Row& row) {
  object fields{{"step", row.step}, {"time", row.time}};
  object values;
  for (const auto& [name, number] : row.values) values[SafeText(name)] = number;
  fields["values"] = std::move(values);
  return fields;
}

object PartJson(const std::string& name, double amount) { return {{"name", name}, {"amount", amount}}; }

// Returns the number of sampled tokens in a group's stored trees, or -1 if they were deleted. Errors come from the
// pool.
absl::StatusOr<int64_t> CountSampled(datapool::Client& pool, int64_t group) {
  v1::GetGroupRequest request;
  request.set_group_id(group);
  const absl::StatusOr<v1::Group> trees = pool.GetGroup(request);
  if (absl::IsNotFound(trees.status())) return -1;
  INGOT_RETURN_IF_ERROR(trees.status());
  int64_t tokens = 0;
  for (const v1::EpisodeTree& tree : trees->episodes()) {
    for (const auto& [key, segment] : tree.segments()) tokens += segment.logprobs_size();
  }
  return tokens;
}

// The keys that each API path accepts.
const std::map<std::string_view, std::vector<std::string>>& Questions() {
  static const std::map<std::string_view, std::vector<std::string>> questions = {
      {"/api/run", {}},
      {"/api/config", {}},
      {"/api/curves", {"names", "points"}},
      {"/api/window", {}},
      {"/api/time", {"steps"}},
      {"/api/step", {"step"}},
      {"/api/episodes",
       {"kind", "step", "group", "version", "reward_min", "reward_max", "state", "domain", "scaffold", "task", "cause",
        "fork", "text", "after", "limit"}},
      {"/api/group", {"group", "kind"}},
      {"/api/episode", {"id"}},
      {"/api/tokens", {"id", "call"}}};
  return questions;
}

}  // namespace

RunView::RunView(RunSource source, const base::Clock& clock)
    : source_(std::move(source)),
      clock_(clock),
      rows_(source_.folder + "/metrics.jsonl"),
      warm_start_(source_.folder + "/warm_start/metrics.jsonl") {}

absl::StatusOr<std::string> RunView::Answer(std::string_view target) {
  const std::string key(target);
  {
    base::MutexLock lock(mu_);
    const auto found = answers_.find(key);
    if (found != answers_.end() && clock_.Now() - found->second.first < kFresh) return found->second.second;
  }
  const std::string_view path = target.substr(0, target.find('?'));
  INGOT_ASSIGN_OR_RETURN(std::string text, Make(path, Query::Of(target)));
  base::MutexLock lock(mu_);
  if (answers_.size() >= kMaxAnswers) answers_.clear();
  // Long responses, such as a call's tokens, are not cached.
  if (text.size() < (1 << 20)) answers_[key] = {clock_.Now(), text};
  return text;
}

absl::StatusOr<std::string> RunView::EndUncalled(std::string_view target, const std::string& key) {
  absl::StatusOr<std::string> answer = AnswerEnd(source_.end_uncalled, target, key);
  base::MutexLock lock(mu_);
  answers_.clear();  // they may contain the ended episodes
  return answer;
}

absl::StatusOr<std::string> RunView::Make(std::string_view path, const Query& query) {
  const auto question = Questions().find(path);
  if (question == Questions().end()) return absl::NotFoundError("the page has no such API path");
  INGOT_RETURN_IF_ERROR(query.Only(question->second));
  INGOT_RETURN_IF_ERROR(rows_.Refresh());
  INGOT_RETURN_IF_ERROR(warm_start_.Refresh());
  if (path == "/api/tokens") return Tokens(query);
  INGOT_ASSIGN_OR_RETURN(const value made, MakeValue(path, query));
  return base::PrintJson(made);
}

absl::StatusOr<value> RunView::MakeValue(std::string_view path, const Query& query) {
  if (path == "/api/run") return Run();
  if (path == "/api/config") return Config();
  if (path == "/api/curves") return Curves(query);
  if (path == "/api/window") return Window();
  if (path == "/api/time") return Time(query);
  if (path == "/api/step") return Step(query);
  if (path == "/api/episodes") return Episodes(query);
  if (path == "/api/group") return Group(query);
  return Episode(query);
}

absl::StatusOr<std::shared_ptr<datapool::Client>> RunView::Pool() {
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<datapool::Client> pool, source_.pool());
  INGOT_RETURN_IF_ERROR(journal_.Refresh(*pool));
  const int64_t generation = journal_.generation();
  base::MutexLock lock(mu_);
  if (std::exchange(generation_, generation) != generation) {
    sampled_in_.clear();
    waits_.Forget();
  }
  return pool;
}

absl::StatusOr<value> RunView::Run() {
  const RunFacts& facts = source_.facts;
  object result{{"name", SafeText(source_.name)},  {"folder", SafeText(source_.folder)},
                {"live", source_.live != nullptr}, {"rows", rows_.size()},
                {"broken_rows", rows_.broken()},   {"now", static_cast<double>(clock_.UnixNanos()) * 1e-9}};
  array names, scaffolds;
  for (const std::string& name : NamesOf(rows_, &warm_start_)) names.push_back(value(SafeText(name)));
  for (const std::string& name : facts.scaffolds) scaffolds.push_back(value(SafeText(name)));
  result["names"] = std::move(names);
  result["facts"] = object{{"supervised", facts.supervised},
                           {"total_steps", facts.total_steps},
                           {"groups_per_step", facts.groups_per_step},
                           {"group_size", facts.group_size},
                           {"max_staleness", facts.max_staleness},
                           {"budget", facts.budget},
                           {"window", facts.window},
                           {"concurrency", facts.concurrency},
                           {"scaffolds", std::move(scaffolds)}};
  const std::string outdated = source_.outdated == nullptr ? "" : source_.outdated();
  if (!outdated.empty()) result["outdated"] = SafeText(outdated);
  const std::vector<Row> steps = rows_.Last("perf/step_seconds", kEfficiencySteps);
  if (!steps.empty()) result["last"] = RowJson(steps.back());
  const std::optional<Row> supervised = NewestSupervised(facts.supervised ? rows_ : warm_start_);
  if (supervised) result["supervised"] = RowJson(*supervised);
  const std::vector<Row> evaluated = rows_.Last("eval/reward_mean", 1);
  if (!evaluated.empty()) result["evaluated"] = RowJson(evaluated.back());
  const std::vector<Row> spread = rows_.Last("trainer/update_variance", 1);
  if (!spread.empty()) {
    result["update_variance"] =
        object{{"step", spread.back().step}, {"value", spread.back().Get("trainer/update_variance")}};
  }
  if (const std::optional<Efficiency> j = EfficiencyOf(steps)) {
    result["efficiency"] = object{{"steps", j->steps},
                                  {"value", j->value},
                                  {"low", j->low},
                                  {"high", j->high},
                                  {"tokens_per_second", j->tokens_per_second},
                                  {"reward_per_million", j->reward_per_million}};
  }
  AddPool(result);
  if (source_.live != nullptr) AddLive(source_.live(), facts, result);
  result["can_end"] = source_.end_uncalled != nullptr;
  return result;
}

void RunView::AddPool(object& run) {
  const absl::StatusOr<std::shared_ptr<datapool::Client>> pool = Pool();
  if (!pool.ok()) {
    run[absl::IsNotFound(pool.status()) ? "no_pool" : "pool_error"] = SafeText(std::string(pool.status().message()));
    return;
  }
  run["started"] = journal_.started_s();
  run["batches"] = journal_.batches();
  run["live_version"] = journal_.live_version();
}

absl::StatusOr<value> RunView::Config() const {
  INGOT_ASSIGN_OR_RETURN(const std::string yaml, base::ReadFile(source_.folder + "/config.yaml"));
  return object{{"yaml", SafeText(yaml)}};
}

absl::StatusOr<value> RunView::Curves(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const CurveQuery curve_query, CurveQuery::Of(query));
  object curves;
  for (const std::string& name : curve_query.names) {
    curves[SafeText(name)] = CurveJson(RecordOf(name, rows_, &warm_start_).CurveOf(name, curve_query.points));
  }
  return object{{"rows", rows_.size()}, {"curves", std::move(curves)}};
}

absl::StatusOr<value> RunView::Window() {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<datapool::Client> pool, Pool());
  bool rest = source_.live != nullptr;  // true = no engine has a call
  if (rest) {
    for (const auto& [name, engine] : source_.live().engines) {
      rest = rest && engine.ok() && engine->running() == 0 && engine->waiting() == 0;
    }
  }
  INGOT_ASSIGN_OR_RETURN(object window, WindowJson(source_.facts, journal_, *pool, clock_.UnixNanos(), rest));
  return window;
}

absl::StatusOr<value> RunView::Time(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const std::optional<int64_t> asked, query.Integer("steps"));
  const auto most = static_cast<size_t>(std::clamp<int64_t>(asked.value_or(100'000), 1, 1'000'000));
  const std::vector<Row> rows = rows_.Last("perf/step_seconds", most);
  const SecondsAccount account = AccountSeconds(rows);
  array parts;
  for (const Part& part : account.parts) parts.push_back(PartJson(part.name, part.amount));
  const absl::StatusOr<std::shared_ptr<datapool::Client>> pool = Pool();
  std::map<std::string, double> causes;
  double explained = 0;
  for (size_t i = rows.size() - std::min(rows.size(), kWaitSteps); pool.ok() && i < rows.size(); ++i) {
    for (const Part& part : waits_.CausesOf(rows[i], journal_, **pool)) {
      causes[part.name] += part.amount;
      explained += part.amount;
    }
  }
  array waits;
  for (const auto& [name, amount] : causes) waits.push_back(PartJson(name, amount));
  double engine_idle = 0, engine_total = 0;
  for (const Row& row : rows) {
    if (!row.Has("rollout/idle_ratio")) continue;
    const double alive = row.Get("rollout/alive_seconds", row.Get("perf/step_seconds"));
    engine_total += alive;
    engine_idle += alive * row.Get("rollout/idle_ratio");
  }
  return object{{"wall", account.wall},
                {"measured", account.measured},
                {"parts", std::move(parts)},
                {"steps", rows.size()},
                {"wait_causes", std::move(waits)},
                {"wait_explained", explained},
                {"wait_steps", std::min(rows.size(), kWaitSteps)},
                {"engine_idle", engine_idle},
                {"engine_total", engine_total},
                {"tokens", Tokens(rows, pool.ok() ? pool->get() : nullptr)}};
}

object RunView::Tokens(const std::vector<Row>& rows, datapool::Client* pool) {
  double sampled = 0, trained = 0, stale = 0, unmerged = 0, merged = 0, computed = 0;
  for (const Row& row : rows) {
    // Rows in older records have only the rate.
    sampled +=
        row.Get("rollout/sampled_tokens", row.Get("rollout/sampled_tokens_per_second") * row.Get("perf/step_seconds"));
    trained += row.Get("batch/loss_tokens");
    stale += row.Get("batch/tokens_left_out_age");
    unmerged += row.Get("tree/unmerged_tokens");
    merged += row.Get("tree/merged_tokens");
    computed += row.Get("tree/computed_tokens", row.Get("tree/merged_tokens"));
  }
  std::vector<int64_t> closed = journal_.InState(GroupState::kDropped, kMaxCounted);
  const std::vector<int64_t> failed = journal_.InState(GroupState::kFailed, kMaxCounted);
  closed.insert(closed.end(), failed.begin(), failed.end());
  size_t read = 0, counted = 0, deleted = 0;
  int64_t dropped = 0;
  base::MutexLock lock(mu_);
  for (const int64_t id : closed) {
    auto found = sampled_in_.find(id);
    if (found == sampled_in_.end() && pool != nullptr && read < kCountGroups) {
      ++read;
      const absl::StatusOr<int64_t> tokens = CountSampled(*pool, id);
      // If the pool does not answer now, the next request tries again.
      if (tokens.ok()) found = sampled_in_.emplace(id, *tokens).first;
      if (!tokens.ok()) read = kCountGroups;
    }
    if (found == sampled_in_.end()) continue;
    (found->second < 0 ? deleted : counted) += 1;
    dropped += std::max<int64_t>(0, found->second);
  }
  return object{{"sampled", sampled},
                {"trained", trained},
                {"stale", stale},
                {"dropped", dropped},
                {"dropped_groups", journal_.Count(GroupState::kDropped) + journal_.Count(GroupState::kFailed)},
                {"dropped_groups_counted", counted},
                {"dropped_groups_deleted", deleted},
                {"unmerged", unmerged},
                {"merged", merged},
                {"computed", computed}};
}

absl::StatusOr<value> RunView::Step(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const std::optional<int64_t> step, query.Integer("step"));
  if (!step) return absl::InvalidArgumentError("step: expected a number");
  INGOT_RETURN_IF_ERROR(Pool().status());
  const std::optional<JournalBatch> batch = journal_.Batch(*step);
  if (!batch) return absl::NotFoundError(absl::StrCat("the journal has no batch ", *step));
  array groups;
  for (const int64_t id : batch->groups) {
    const std::optional<JournalGroup> group = journal_.Group(id);
    object fields{{"group", id}};
    if (group) {
      fields["task"] = SafeText(group->task_id);
      fields["domain"] = SafeText(group->domain);
      fields["returns"] = NumbersJson(group->returns);
      fields["version"] = group->admitted_version;
    }
    groups.push_back(std::move(fields));
  }
  return object{{"step", *step}, {"groups", std::move(groups)}};
}

absl::StatusOr<value> RunView::Episodes(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<datapool::Client> pool, Pool());
  INGOT_ASSIGN_OR_RETURN(const std::optional<int64_t> asked, query.Integer("limit"));
  const auto limit = static_cast<size_t>(std::clamp<int64_t>(asked.value_or(100), 1, 1000));
  INGOT_ASSIGN_OR_RETURN(const EpisodeFilter filter, EpisodeFilter::Of(query));
  INGOT_ASSIGN_OR_RETURN(object list, ListJson(filter, query.Text("after"), journal_, *pool, *source_.tokenizer,
                                               {.limit = limit}, clock_));
  return list;
}

absl::StatusOr<value> RunView::Group(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const std::optional<int64_t> id, query.Integer("group"));
  INGOT_ASSIGN_OR_RETURN(const std::string kind, query.OneOf("kind", {"train", "eval"}));
  if (!id) return absl::InvalidArgumentError("group: expected a number");
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<datapool::Client> pool, Pool());
  v1::GetGroupRequest request;
  request.set_group_id(*id);
  request.set_purpose(kind == "eval" ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN);
  INGOT_ASSIGN_OR_RETURN(const v1::Group group, pool->GetGroup(request));
  std::vector<std::vector<double>> advantages;
  if (source_.advantages != nullptr && request.purpose() == v1::PURPOSE_TRAIN) advantages = source_.advantages(group);
  array episodes;
  for (int i = 0; i < group.episodes_size(); ++i) {
    const std::vector<double> own =
        i < std::ssize(advantages) ? advantages[static_cast<size_t>(i)] : std::vector<double>{};
    INGOT_ASSIGN_OR_RETURN(object tree, EpisodeTreeJson(group.episodes(i), *source_.tokenizer, own, kTreeText));
    tree.erase("payload");
    episodes.push_back(std::move(tree));
  }
  object result{{"group", *id},
                {"task", SafeText(group.task().task_id())},
                {"payload", SafeText(group.task().payload_json())},
                {"episodes", std::move(episodes)}};
  if (request.purpose() == v1::PURPOSE_EVAL) return result;
  if (const std::optional<JournalGroup> known = journal_.Group(*id)) {
    result["state"] = NameOf(known->state);
    result["step"] = known->step;
    result["reason"] = SafeText(known->reason);
  }
  return result;
}

absl::StatusOr<v1::EpisodeTree> RunView::Tree(datapool::Client& pool, const Query& query) {
  v1::GetEpisodeRequest request;
  request.set_episode_id(query.Text("id"));
  request.set_with_calls(true);
  if (request.episode_id().empty()) return absl::InvalidArgumentError("id: expected an episode id");
  return pool.GetEpisode(request);
}

std::vector<double> RunView::AdvantagesOf(datapool::Client& pool, const v1::EpisodeTree& tree) {
  if (source_.advantages == nullptr || tree.episode().purpose() != v1::PURPOSE_TRAIN) return {};
  v1::GetGroupRequest request;
  request.set_group_id(tree.episode().ref().group_id());
  const absl::StatusOr<v1::Group> group = pool.GetGroup(request);
  if (!group.ok()) return {};
  const std::vector<std::vector<double>> advantages = source_.advantages(*group);
  for (int i = 0; i < group->episodes_size() && i < std::ssize(advantages); ++i) {
    if (group->episodes(i).episode().episode_id() == tree.episode().episode_id()) {
      return advantages[static_cast<size_t>(i)];
    }
  }
  return {};
}

absl::StatusOr<value> RunView::Episode(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<datapool::Client> pool, Pool());
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, Tree(*pool, query));
  INGOT_ASSIGN_OR_RETURN(object fields,
                         EpisodeTreeJson(tree, *source_.tokenizer, AdvantagesOf(*pool, tree), kTreeText));
  return fields;
}

absl::StatusOr<std::string> RunView::Tokens(const Query& query) {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<datapool::Client> pool, source_.pool());
  INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree tree, Tree(*pool, query));
  INGOT_ASSIGN_OR_RETURN(const std::optional<int64_t> call, query.Integer("call"));
  if (!call) return absl::InvalidArgumentError("call: expected a number");
  for (int i = 0; i < tree.calls_size(); ++i) {
    if (call == tree.calls(i).sequence()) return CallTokensJson(tree, i, source_.tokenizer);
  }
  return absl::NotFoundError("call: the episode has no such call");
}

}  // namespace ingot::view
