#include "registry/registration.h"

#include <utility>

#include "base/log.h"
#include "base/outage.h"
#include "base/waits.h"

namespace ingot::registry {
namespace {

constexpr std::chrono::milliseconds kRetry(1000), kLook(200);

}  // namespace

Registration::Registration(Registry& registry, RegistrationOptions options, const base::Clock& clock)
    : registry_(registry), options_(std::move(options)), clock_(clock), value_(options_.value) {}

absl::StatusOr<std::unique_ptr<Registration>> Registration::Start(Registry& registry, RegistrationOptions options,
                                                                  const base::Clock& clock) {
  auto made = std::unique_ptr<Registration>(new Registration(registry, std::move(options), clock));
  INGOT_RETURN_IF_ERROR(made->Begin());
  made->thread_ = std::thread([registration = made.get()] { registration->Run(); });
  return made;
}

Registration::~Registration() {
  {
    base::MutexLock lock(mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  lease_.reset();
}

absl::Status Registration::Begin() {
  const std::chrono::nanoseconds end = clock_.Now() + options_.timeout.value_or(std::chrono::milliseconds(0));
  base::Wait wait(absl::StrCat("an entry of ", options_.key));
  for (;;) {
    Entry holder;
    INGOT_RETURN_IF_ERROR(Establish(!options_.timeout.has_value(), holder));
    if (holder.value == value_) {
      token_ = holder.create_revision;
      return absl::OkStatus();
    }
    base::MutexLock lock(mu_);
    if (clock_.Now() >= end) {
      return absl::AlreadyExistsError(
          absl::StrCat(options_.key, " in ", registry_.Describe(), " is another process's: ", Described(holder)));
    }
    wait.Because(absl::StrCat("the end of another process's lease of ", options_.key, ": ", Described(holder)));
    Wait(kLook);
  }
}

std::string Registration::Described(const Entry& holder) const {
  return options_.describe ? options_.describe(holder) : holder.value;
}

absl::Status Registration::Establish(bool take_over, Entry& holder) {
  lease_.reset();
  {
    base::MutexLock lock(mu_);
    lost_ = false;
  }
  INGOT_ASSIGN_OR_RETURN(lease_, registry_.Grant(options_.ttl, [this] {
    base::MutexLock lock(mu_);
    lost_ = true;
    changed_.SignalAll();
  }));
  PutOptions put{.lease = lease_->id()};
  if (!take_over || options_.leads) put.expected_revision = 0;
  if (take_over && options_.leads) INGOT_RETURN_IF_ERROR(registry_.Delete(options_.key));
  INGOT_ASSIGN_OR_RETURN(PutResult result, registry_.Put(options_.key, value_, put));
  if (!result.written && Own(result.entry.value)) {
    put.expected_revision = result.entry.mod_revision;
    INGOT_ASSIGN_OR_RETURN(result, registry_.Put(options_.key, value_, put));
  }
  holder = result.entry;
  if (!result.written) lease_.reset();
  return absl::OkStatus();
}

bool Registration::Wait(std::chrono::nanoseconds time) {
  const std::chrono::nanoseconds end = clock_.Now() + time;
  while (!stopping_ && clock_.WaitUntil(changed_, mu_, end)) {
  }
  return !stopping_;
}

void Registration::Update(std::string value) {
  base::MutexLock lock(mu_);
  next_ = std::move(value);
  changed_.SignalAll();
}

bool Registration::Own(const std::string& value) {
  base::MutexLock lock(mu_);
  return value == value_ || (next_.has_value() && value == *next_);
}

absl::Status Registration::Renew() {
  std::string value;
  {
    base::MutexLock lock(mu_);
    if (!next_.has_value()) return absl::OkStatus();
    value = *next_;
  }
  INGOT_ASSIGN_OR_RETURN(const std::optional<Entry> present, registry_.Get(options_.key));
  // If the entry is gone or belongs to another process, Establish handles this once the lease is known to be lost.
  if (!present.has_value() || !Own(present->value)) return absl::UnavailableError("the entry is not this process's");
  if (present->value != value) {  // otherwise, an earlier write succeeded but its response was lost
    INGOT_ASSIGN_OR_RETURN(
        const PutResult result,
        registry_.Put(options_.key, value, {.lease = lease_->id(), .expected_revision = present->mod_revision}));
    if (!result.written) return absl::UnavailableError("another write changed the entry");
  }
  value_ = value;
  base::MutexLock lock(mu_);
  if (next_ == value) next_.reset();
  return absl::OkStatus();
}

void Registration::Run() {
  base::Outage outage("the registration of " + options_.key, clock_);
  base::MutexLock lock(mu_);
  while (!stopping_) {
    if (!lost_ && !next_.has_value()) {
      changed_.Wait(mu_);
      continue;
    }
    if (!lost_) {
      mu_.Unlock();
      const absl::Status renewed = Renew();
      mu_.Lock();
      if (!renewed.ok() && !lost_) Wait(kRetry);
      continue;
    }
    mu_.Unlock();
    Entry holder;
    const absl::Status established = Establish(false, holder);
    const bool taken = established.ok() && !Own(holder.value);
    if (taken && options_.on_taken) options_.on_taken(holder);
    mu_.Lock();
    if (taken) return;
    if (established.ok()) {
      outage.Over();
      INGOT_LOG(warn, "{} was unregistered for a while and is registered again", options_.key);
      continue;
    }
    outage.Failed(established);
    lost_ = true;
    Wait(kRetry);
  }
}

}  // namespace ingot::registry
