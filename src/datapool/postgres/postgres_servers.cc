#include "datapool/postgres/postgres_servers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"

namespace ingot::datapool {
namespace {

// Returns the error for a survey that did not find a leader: FAILED_PRECONDITION if all servers rejected the user or
// the database.
absl::Status NobodyAnswered(const std::vector<PostgresFound>& found) {
  std::string reported;
  bool rejected = true;
  for (const PostgresFound& one : found) {
    if (one.status.ok()) continue;
    absl::StrAppend(&reported, reported.empty() ? "" : "; ", one.status.message());
    rejected = rejected && absl::IsFailedPrecondition(one.status);
  }
  return rejected ? absl::FailedPreconditionError(reported) : absl::UnavailableError(reported);
}

}  // namespace

absl::StatusOr<std::shared_ptr<PostgresServers>> PostgresServers::Make(Options options, const base::Clock& clock) {
  INGOT_ASSIGN_OR_RETURN(PostgresUrl url, PostgresUrl::Parse(options.url));
  return std::shared_ptr<PostgresServers>(new PostgresServers(std::move(options), std::move(url), clock));
}

PostgresServers::PostgresServers(Options options, PostgresUrl url, const base::Clock& clock)
    : options_(std::move(options)),
      url_(std::move(url)),
      clock_(clock),
      timelines_(options_.folder, options_.read_only) {
  if (!options_.watch) return;
  watcher_ = std::make_unique<base::Executor>(base::ExecutorOptions{.name = "postgres-watch", .threads = 2}, clock_);
  timer_ = watcher_->PostEvery(options_.look_every, [this] { Watch(); });
  hung_timer_ = watcher_->PostEvery(options_.look_every, [this] { QueryHungServers(); });
}

PostgresServers::~PostgresServers() { closing_ = true; }

std::shared_ptr<PostgresLead> PostgresServers::lead() const {
  base::MutexLock lock(mu_);
  return lead_;
}

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresServers::ConnectLeader() {
  timelines_.Load();
  const std::shared_ptr<PostgresLead> before = lead();
  std::vector<PostgresFound> found = Survey(url_.hosts);
  LeaveOutRejected(found);
  std::vector<PostgresAnswer> answers;
  std::vector<PostgresFound*> answered;
  for (PostgresFound& one : found) {
    if (!one.status.ok()) continue;
    answers.push_back(one.answer);
    answered.push_back(&one);
  }
  if (answers.empty()) return NobodyAnswered(found);
  const absl::StatusOr<size_t> chosen =
      ChooseLeader(answers, timelines_, before == nullptr ? nullptr : &before->identity());
  if (!chosen.ok()) {
    // The other servers' failure to answer is part of the reason.
    if (answers.size() == found.size()) return chosen.status();
    return absl::Status(chosen.status().code(),
                        absl::StrCat(chosen.status().message(), "; ", NobodyAnswered(found).message()));
  }
  PostgresFound& leader = *answered[*chosen];
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<PostgresLead> lead, Lead(leader.answer, leader.host));
  leader.connection->SetLead(std::move(lead));
  INGOT_RETURN_IF_ERROR(CheckHolds(*leader.connection));
  return std::move(leader.connection);
}

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresServers::ConnectSame() {
  std::shared_ptr<PostgresLead> lead;
  PostgresHost host;
  {
    base::MutexLock lock(mu_);
    lead = lead_;
    host = lead_host_;
  }
  if (lead == nullptr) return absl::UnavailableError("no PostgreSQL primary is known yet");
  if (lead->over())
    return absl::UnavailableError(absl::StrCat("PostgreSQL at ", lead->name(), " is no longer used: ", lead->why()));
  std::vector<PostgresFound> found = Survey({host});
  for (PostgresFound& one : found) {
    if (!one.status.ok() || one.answer.standby || one.answer.identity != lead->identity()) continue;
    one.connection->SetLead(lead);
    return std::move(one.connection);
  }
  if (!found.empty() && !found[0].status.ok()) return NobodyAnswered(found);
  return absl::UnavailableError(absl::StrCat(host.Name(), " is now a different server than ", lead->name()));
}

void PostgresServers::Reject(PostgresLead& lead, const std::string& why) {
  INGOT_LOG(error, "{}", why);
  base::MutexLock lock(mu_);
  rejected_.emplace_back(lead.identity(), why);
  lead.End(why);
}

absl::Status PostgresServers::Acknowledge(const PostgresLead& lead, const PostgresCommits& shard, int64_t number) {
  base::MutexLock lock(mu_);
  if (lead.over())
    return absl::UnavailableError(absl::StrCat("PostgreSQL at ", lead.name(), " is no longer used: ", lead.why()));
  PostgresCommits& known = acknowledged_[shard.key];
  known = shard;
  known.acknowledged = number;
  known.by = lead.name();
  return absl::OkStatus();
}

void PostgresServers::Forget(const std::string& key) {
  base::MutexLock lock(mu_);
  acknowledged_.erase(key);
}

// Lead() has already ended the previous lead, so commits of other shards that this check misses are not acknowledged.
absl::Status PostgresServers::CheckHolds(PostgresConnection& connection) {
  std::vector<PostgresCommits> shards;
  {
    base::MutexLock lock(mu_);
    for (const auto& [key, shard] : acknowledged_) shards.push_back(shard);
  }
  INGOT_ASSIGN_OR_RETURN(const std::string why, MissingCommits(connection, shards));
  if (why.empty()) return absl::OkStatus();
  Reject(*connection.lead(), why);
  return absl::UnavailableError(why);
}

absl::Status PostgresServers::CheckRejected(const PostgresIdentity& identity) const {
  for (const auto& [rejected, why] : rejected_) {
    if (rejected == identity) return absl::UnavailableError(why);
  }
  return absl::OkStatus();
}

void PostgresServers::LeaveOutRejected(std::vector<PostgresFound>& found) const {
  base::MutexLock lock(mu_);
  for (PostgresFound& one : found) {
    if (one.status.ok()) one.status = CheckRejected(one.answer.identity);
  }
}

std::vector<PostgresFound> PostgresServers::Survey(const std::vector<PostgresHost>& hosts, Await await) {
  std::set<std::string> not_awaited;
  {
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds now = clock_.Now();
    if (lead_ != nullptr && lead_->hung.exchange(false)) hung_[lead_->host()] = {lead_host_, now + options_.hung_for};
    std::erase_if(hung_, [&](const auto& hung) { return hung.second.until <= now; });
    if (await != Await::kAll) {
      for (const auto& [name, hung] : hung_) not_awaited.insert(name);
    }
    if (await == Await::kOthers && lead_ != nullptr) not_awaited.insert(lead_->host());
  }
  PostgresSurvey survey;
  survey.answer_timeout = options_.answer_timeout;
  survey.not_awaited = [&](const std::string& name) { return not_awaited.contains(name); };
  survey.await_writer = await != Await::kOthers;
  survey.resolve = options_.resolve;
  survey.stop = &closing_;
  std::vector<PostgresFound> found = SurveyPostgres(url_, hosts, survey);
  Learn(found, await);
  return found;
}

void PostgresServers::Learn(const std::vector<PostgresFound>& found, Await await) {
  const std::chrono::nanoseconds now = clock_.Now();
  for (const PostgresFound& one : found) {
    if (one.status.ok()) timelines_.Saw(one.answer);
  }
  base::MutexLock lock(mu_);
  const std::string led = lead_ == nullptr ? "" : lead_->host();
  const bool lead_is_silent = std::any_of(
      found.begin(), found.end(), [&](const PostgresFound& one) { return !one.status.ok() && one.host.Name() == led; });
  for (const PostgresFound& one : found) {
    const std::string name = one.host.Name();
    // A survey of hung servers does not extend their time, because otherwise an address removed from the URL would be
    // queried forever.
    if (one.hung && await != Await::kAll) hung_[name] = {one.host, now + options_.hung_for};
    if (!one.status.ok()) continue;
    hung_.erase(name);
    const auto& [host, standby, identity] = one.answer;
    if (lead_ != nullptr && identity.system == lead_->identity().system &&
        identity.timeline > lead_->identity().timeline) {
      lead_->End(absl::StrCat(host, standby ? " follows" : " writes on", " timeline ", identity.timeline));
      if (lead_is_silent) hung_[led] = {lead_host_, now + options_.hung_for};
    }
    const int64_t highest = timelines_.Highest(identity.system);
    if (standby || identity.timeline >= highest || reported_[name] == highest) continue;
    reported_[name] = highest;
    INGOT_LOG(warn, "PostgreSQL at {} writes on the old timeline {} and is not used{}", host, identity.timeline,
              timelines_.Remedy(identity.system));
  }
}

absl::StatusOr<std::shared_ptr<PostgresLead>> PostgresServers::Lead(const PostgresAnswer& answer,
                                                                    const PostgresHost& host) {
  base::MutexLock lock(mu_);
  if (answer.identity.timeline < timelines_.Highest(answer.identity.system)) {
    return absl::UnavailableError(absl::StrCat(answer.host, " writes on the old timeline ", answer.identity.timeline,
                                               timelines_.Remedy(answer.identity.system)));
  }
  INGOT_RETURN_IF_ERROR(CheckRejected(answer.identity));
  if (lead_ != nullptr && !lead_->over() && lead_->identity() == answer.identity) return lead_;
  const std::shared_ptr<PostgresLead> before = lead_;
  lead_ = std::make_shared<PostgresLead>(answer.host, answer.identity);
  lead_host_ = host;
  if (before != nullptr) {
    before->End(absl::StrCat(lead_->name(), " leads"));
    INGOT_LOG(info, "the pool moves from PostgreSQL at {} to {}: {}", before->name(), lead_->name(), before->why());
  }
  return lead_;
}

void PostgresServers::Watch() {
  const std::shared_ptr<PostgresLead> watched = lead();
  if (watched == nullptr || watched->over() || closing_) return;
  const bool slow = watched->slow.exchange(false);
  {
    base::MutexLock lock(mu_);
    const std::chrono::nanoseconds now = clock_.Now();
    if (!slow && now - watched_ < options_.watch_every) return;
    watched_ = now;
  }
  if (slow || HasSeveral()) (void)Survey(url_.hosts, slow ? Await::kOthers : Await::kWriter);
}

void PostgresServers::QueryHungServers() {
  std::vector<PostgresHost> hosts;
  {
    base::MutexLock lock(mu_);
    for (const auto& [name, hung] : hung_) hosts.push_back(hung.host);
  }
  if (!hosts.empty() && !closing_) (void)Survey(hosts, Await::kAll);
}

// Also returns true if a name now resolves to an address other than the lead's.
bool PostgresServers::HasSeveral() const {
  if (url_.hosts.size() > 1) return true;
  const std::vector<PostgresFound> found = ResolvePostgres(url_.hosts, options_.resolve);
  const std::shared_ptr<PostgresLead> led = lead();
  return std::any_of(found.begin(), found.end(), [&](const PostgresFound& one) {
    return one.status.ok() && (led == nullptr || one.host.Name() != led->host());
  });
}

}  // namespace ingot::datapool
