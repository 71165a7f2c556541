#include "registry/grpc_etcd.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/outage.h"
#include "base/random.h"
#include "registry/arguments.h"
#include "registry/grpc_etcd_client.h"
#include "registry/lease_keeper.h"
#include "registry/view.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kWatchPause(100);  // before a stream is reopened

milliseconds Ms(nanoseconds time) { return std::chrono::ceil<milliseconds>(time); }

// Returns the first key after all keys that begin with `prefix`; "\0" = there is no upper bound.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

Entry ToEntry(const api::KeyValue& kv) {
  return {kv.key(), kv.value(), kv.create_revision(), kv.mod_revision(), kv.lease()};
}

// Returns the entry in a response to a `request_range` for one key, or an empty entry if there is none.
Entry OneOf(const api::ResponseOp& response) {
  return response.response_range().kvs_size() > 0 ? ToEntry(response.response_range().kvs(0)) : Entry();
}

class EtcdWatcher final : public Watcher {
 public:
  EtcdWatcher(EtcdClient& client, const std::string& prefix, const Listing& first, Registry::Observer observer,
              std::function<absl::StatusOr<Listing>()> list)
      : client_(client),
        prefix_(prefix),
        observer_(std::move(observer)),
        list_(std::move(list)),
        outage_(absl::StrCat("the watch of ", prefix), base::Clock::Real()),
        thread_([this, first] { Run(first); }) {}

  ~EtcdWatcher() override {
    {
      base::MutexLock lock(mu_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
      changed_.SignalAll();
    }
    thread_.join();
  }

 private:
  void Run(const Listing& first) {
    NotifyWatcher(first);
    for (size_t turn = 0; !IsStopping(); ++turn) {
      const EtcdMember& member = *client_.members()[turn % client_.members().size()];
      const absl::Status ended = Follow(member);
      if (IsStopping()) return;
      outage_.Failed(ended);
      // Also logs in again if necessary.
      if (!absl::IsUnavailable(ended)) Catch();
      Pause(*client_.members()[(turn + 1) % client_.members().size()]);
    }
  }

  // Reports the changes that one member sends until its stream ends.
  absl::Status Follow(const EtcdMember& member) {
    grpc::ClientContext context;
    INGOT_RETURN_IF_ERROR(client_.Authorize(context, member));
    context.AddMetadata("hasleader", "true");  // a member that has lost the cluster ends the stream
    Announce(&context);
    const auto stream = member.watch->Watch(&context);
    api::WatchRequest request;
    api::WatchCreateRequest& create = *request.mutable_create_request();
    create.set_key(prefix_);
    create.set_range_end(EndOf(prefix_));
    create.set_start_revision(next_);
    create.set_progress_notify(true);
    absl::Status ended;
    api::WatchResponse response;
    if (stream->Write(request)) {
      while (ended.ok() && stream->Read(&response)) ended = HandleResponse(response, member);
    }
    if (!ended.ok()) context.TryCancel();
    const grpc::Status status = stream->Finish();
    Announce(nullptr);
    return ended.ok() ? client_.Explain(status, member) : ended;
  }

  absl::Status HandleResponse(const api::WatchResponse& response, const EtcdMember& member) {
    if (!response.canceled()) outage_.Over();
    if (response.canceled()) {
      return absl::FailedPreconditionError(absl::StrCat("etcd at ", member.address,
                                                        " ended it: ", response.cancel_reason(), ", oldest revision ",
                                                        response.compact_revision()));
    }
    for (const api::Event& sent : response.events()) {
      const Event event{sent.type() == api::Event::DELETE, ToEntry(sent.kv())};
      next_ = event.entry.mod_revision + 1;
      if (view_.Apply(event)) observer_(event);
    }
    // A response without events means that nothing changed up to its revision.
    if (response.events_size() == 0 && !response.created()) next_ = std::max(next_, response.header().revision() + 1);
    return absl::OkStatus();
  }

  // Reports the differences from the current entries. The next stream starts after them.
  void Catch() {
    const absl::StatusOr<Listing> listing = list_();
    if (listing.ok()) return NotifyWatcher(*listing);
    outage_.Failed(listing.status());
  }

  void NotifyWatcher(const Listing& listing) {
    for (const Event& event : view_.Replace(listing)) observer_(event);
    next_ = listing.revision + 1;
  }

  void Announce(grpc::ClientContext* context) {
    base::MutexLock lock(mu_);
    context_ = context;
    if (stopping_ && context != nullptr) context->TryCancel();
  }
  bool IsStopping() {
    base::MutexLock lock(mu_);
    return stopping_;
  }
  void Pause(const EtcdMember& next) {
    const auto end = std::chrono::steady_clock::now() + kWatchPause;
    next.AwaitConnection(kWatchPause);
    base::MutexLock lock(mu_);
    const milliseconds left = Ms(end - std::chrono::steady_clock::now());
    if (!stopping_ && left > milliseconds(0)) changed_.WaitFor(mu_, left);
  }

  EtcdClient& client_;
  const std::string prefix_;
  const Registry::Observer observer_;
  const std::function<absl::StatusOr<Listing>()> list_;
  base::Outage outage_;  // used only by the thread
  View view_;            // used only by the thread
  int64_t next_ = 0;     // used only by the thread: the first unreported revision
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // the open stream's context
  std::thread thread_;
};

class EtcdRegistry final : public Registry {
 public:
  EtcdRegistry(const EtcdOptions& options, const base::Clock& clock)
      : clock_(clock),
        client_(options),
        keeper_(clock, {[this](int64_t id, nanoseconds deadline) { return client_.KeepAlive(id, Ms(deadline)); },
                        [this](int64_t id, nanoseconds deadline) {
                          const absl::Status revoked = client_.Revoke(id, Ms(deadline));
                          if (!revoked.ok() && !absl::IsNotFound(revoked)) {
                            INGOT_LOG(warn, "cannot revoke a lease; it stays until it expires: {}",
                                      std::string(revoked.message()));
                          }
                        }}) {}

  absl::Status Open() { return client_.Probe(); }
  std::string Describe() const override { return client_.Describe(); }

  absl::StatusOr<std::unique_ptr<Lease>> Grant(std::chrono::milliseconds ttl, std::function<void()> on_lost) override {
    INGOT_ASSIGN_OR_RETURN(const std::chrono::seconds seconds, WholeSeconds(ttl));
    api::LeaseGrantRequest request;
    request.set_id(static_cast<int64_t>(base::RandomSeed() >> 1) | 1);
    request.set_ttl(seconds.count());
    const nanoseconds sent = clock_.Now();
    INGOT_ASSIGN_OR_RETURN(const api::LeaseGrantResponse granted, client_.Grant(request));
    if (!granted.error().empty()) return absl::UnavailableError(absl::StrCat(Describe(), ": ", granted.error()));
    return keeper_.KeepAlive(request.id(), std::chrono::seconds(granted.ttl()), sent, std::move(on_lost));
  }

  absl::StatusOr<PutResult> Put(const std::string& key, const std::string& value, const PutOptions& options) override;

  absl::StatusOr<std::optional<Entry>> Get(const std::string& key) override {
    INGOT_RETURN_IF_ERROR(CheckPut(key, ""));
    api::RangeRequest request;
    request.set_key(key);
    INGOT_ASSIGN_OR_RETURN(const api::RangeResponse response, client_.Range(request));
    return response.kvs_size() == 0 ? std::nullopt : std::make_optional(ToEntry(response.kvs(0)));
  }

  absl::StatusOr<Listing> List(const std::string& prefix) override {
    INGOT_RETURN_IF_ERROR(CheckPut(prefix, ""));
    api::RangeRequest request;
    request.set_key(prefix);
    request.set_range_end(EndOf(prefix));
    INGOT_ASSIGN_OR_RETURN(const api::RangeResponse response, client_.Range(request));
    Listing listing;
    listing.revision = response.header().revision();
    for (const api::KeyValue& kv : response.kvs()) listing.entries.push_back(ToEntry(kv));
    return listing;
  }

  absl::Status Delete(const std::string& key) override {
    INGOT_RETURN_IF_ERROR(CheckPut(key, ""));
    api::DeleteRangeRequest request;
    request.set_key(key);
    return client_.DeleteRange(request).status();
  }

  absl::StatusOr<std::unique_ptr<Watcher>> Watch(const std::string& prefix, Observer observer) override {
    INGOT_ASSIGN_OR_RETURN(const Listing first, List(prefix));
    return std::make_unique<EtcdWatcher>(client_, prefix, first, std::move(observer),
                                         [this, prefix] { return List(prefix); });
  }

 private:
  const base::Clock& clock_;
  EtcdClient client_;
  LeaseKeeper keeper_;
};

absl::StatusOr<PutResult> EtcdRegistry::Put(const std::string& key, const std::string& value,
                                            const PutOptions& options) {
  INGOT_RETURN_IF_ERROR(CheckPut(key, value));
  api::TxnRequest request;
  if (options.expected_revision.has_value()) {
    api::Compare& compare = *request.add_compare();
    compare.set_target(api::Compare::MOD);
    compare.set_key(key);
    compare.set_mod_revision(*options.expected_revision);
  }
  if (options.fence.has_value()) {
    api::Compare& compare = *request.add_compare();
    compare.set_target(api::Compare::CREATE);
    compare.set_key(options.fence->key);
    compare.set_create_revision(options.fence->token);
    request.add_failure()->mutable_request_range()->set_key(options.fence->key);
  }
  request.add_failure()->mutable_request_range()->set_key(key);
  api::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
  put.set_lease(options.lease);
  request.add_success()->mutable_request_range()->set_key(key);

  const absl::StatusOr<api::TxnResponse> answered = client_.Txn(request);
  if (absl::IsNotFound(answered.status())) return NoLease(key, options.lease);
  INGOT_RETURN_IF_ERROR(answered.status());
  const int expected = answered->succeeded() || options.fence.has_value() ? 2 : 1;
  if (answered->responses_size() != expected) {
    return absl::InternalError(
        absl::StrCat(Describe(), " sent ", answered->responses_size(), " responses instead of ", expected));
  }
  const Entry there = OneOf(answered->responses(expected - 1));
  if (answered->succeeded()) return PutResult{true, there};
  if (options.fence.has_value() && OneOf(answered->responses(0)).create_revision != options.fence->token) {
    return StaleFence(*options.fence);
  }
  return PutResult{IsOwn(there, key, value, options.lease), there};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Registry>> ConnectEtcd(const EtcdOptions& options, const base::Clock& clock) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  auto registry = std::make_unique<EtcdRegistry>(options, clock);
  INGOT_RETURN_IF_ERROR(registry->Open());
  return registry;
}

}  // namespace ingot::registry
