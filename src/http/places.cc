#include "http/places.h"

#include <algorithm>
#include <utility>

namespace ingot::http {
namespace {

constexpr int kShares = 16;                    // number of sandboxes needed to fill all of a server's places
constexpr int kMinShare = 16;                  // minimum for a sandbox on a server with few places
constexpr int kRounds = 64;                    // eviction rounds needed to free all of a server's places
constexpr std::chrono::seconds kHeadGrace(1);  // time until an incomplete or missing head is overdue

}  // namespace

bool Place::Set(Stage stage) {
  since_ = clock_.Now();
  Stage before = stage_;
  while (before != Stage::kEvicted && !stage_.compare_exchange_weak(before, stage)) {
  }
  return before != Stage::kEvicted;
}

bool Place::Evict(Stage from) {
  if (!stage_.compare_exchange_strong(from, Stage::kEvicted)) return false;
  evict_();
  return true;
}

int Places::share() const { return std::max(most_ / kShares, std::min(kMinShare, most_)); }

std::shared_ptr<Place> Places::Enter(const std::string& source, int most, std::function<void()> evict) {
  base::MutexLock lock(mu_);
  const auto found = sources_.find(source);
  const size_t has = found == sources_.end() ? 0 : found->second.size();
  if (most > 0 && has >= static_cast<size_t>(most)) {
    if (!EvictOwn(found->second)) return nullptr;
  } else if (taken_ >= most_ && !MakeRoom(found == sources_.end() ? nullptr : &found->second)) {
    return nullptr;
  }
  auto place = std::make_shared<Place>(source, std::move(evict), clock_);
  Source& own = sources_[source];
  place->at_ = own.insert(own.end(), place);
  place->is_in_ = true;
  ++taken_;
  return place;
}

void Places::Leave(const std::shared_ptr<Place>& place) {
  base::MutexLock lock(mu_);
  Erase(*place);
}

void Places::Erase(Place& place) {
  if (!std::exchange(place.is_in_, false)) return;
  const auto found = sources_.find(place.source_);
  found->second.erase(place.at_);  // may be the last pointer to `place`
  if (found->second.empty()) sources_.erase(found);
  --taken_;
}

bool Places::MakeRoom(Source* newcomer) {
  if (EvictOverdue(newcomer)) return true;
  const size_t has = newcomer == nullptr ? 0 : newcomer->size();
  std::vector<Source*> larger;
  for (auto& [name, source] : sources_) {
    if (source.size() > has) larger.push_back(&source);
  }
  std::stable_sort(larger.begin(), larger.end(),
                   [](const Source* a, const Source* b) { return a->size() > b->size(); });
  for (Source* const source : larger) {
    if (EvictFrom(*source, Stage::kHead, 1) > 0 || EvictFrom(*source, Stage::kIdle, 1) > 0) return true;
    if (source->size() <= has + 1) continue;
    if (EvictFrom(*source, Stage::kBody, 1) > 0 || EvictFrom(*source, Stage::kNew, 1) > 0) return true;
  }
  return newcomer != nullptr && EvictOwn(*newcomer);
}

bool Places::EvictOwn(Source& source) {
  return EvictOverdueFrom(source, 1) > 0 || EvictFrom(source, Stage::kHead, 1) > 0 ||
         EvictFrom(source, Stage::kIdle, 1) > 0;
}

std::chrono::nanoseconds Places::Overdue() const { return clock_.Now() - kHeadGrace; }

bool Places::EvictOverdue(const Source* newcomer) {
  const std::chrono::nanoseconds before = Overdue();
  Source* worst = nullptr;
  std::ptrdiff_t most = 0;
  for (auto& [name, source] : sources_) {
    const auto overdue = std::count_if(source.begin(), source.end(), [before](const auto& place) {
      return place->IsIn(Stage::kHead, before) || place->IsIn(Stage::kNew, before);
    });
    if (overdue > most || (overdue == most && overdue > 0 && &source == newcomer)) worst = &source;
    most = std::max(most, overdue);
  }
  // Evicts several at once because each search looks at all connections.
  const auto round = std::max<std::ptrdiff_t>(1, most_ / kRounds);
  return worst != nullptr && EvictOverdueFrom(*worst, static_cast<size_t>(std::min(round, most))) > 0;
}

size_t Places::EvictOverdueFrom(Source& source, size_t count) {
  const std::chrono::nanoseconds before = Overdue();
  const size_t begun = EvictFrom(source, Stage::kHead, count, before);
  if (begun == count) return begun;  // the source may have been destroyed with its last place
  return begun + EvictFrom(source, Stage::kNew, count - begun, before);
}

size_t Places::EvictFrom(Source& source, Stage stage, size_t count, std::chrono::nanoseconds before) {
  std::vector<std::shared_ptr<Place>> found;
  for (const auto& place : source) {
    if (place->IsIn(stage, before)) found.push_back(place);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a->since_.load() < b->since_.load(); });
  size_t evicted = 0;
  for (size_t i = 0; i < found.size() && evicted < count; ++i) {
    if (!found[i]->Evict(stage)) continue;
    Erase(*found[i]);
    ++evicted;
  }
  return evicted;
}

}  // namespace ingot::http
