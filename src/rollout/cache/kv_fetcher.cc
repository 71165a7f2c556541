#include "rollout/cache/kv_fetcher.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ingot::rollout {
namespace {

using std::chrono::nanoseconds;

constexpr double kKeep = 0.8;            // of earlier measurements in an average
constexpr int64_t kMeasuredRows = 32;    // a pass with fewer rows says little about the cost of a prompt's tokens
constexpr double kFirstWaitSeconds = 2;  // while nothing is known about either cost
constexpr double kLeastWaitSeconds = 0.02;
constexpr double kWaitShare = 0.5;    // of the time to compute the chunks that a request waits for faster reading
constexpr double kBlindShare = 0.1;   // the same while reading is not known to be faster
constexpr double kLookupShare = 0.1;  // of the time to compute the chunks, because the store may not have them
constexpr int64_t kTryAgain = 64;
constexpr int64_t kBatchBytes = int64_t{32} << 20;  // read before chunks are named
constexpr int64_t kBlocksShare = 2;                 // fetches hold at most 1/2 of the blocks

double Seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void KvFetcher::Measured::Add(double sample) {
  average = samples++ == 0 ? sample : kKeep * average + (1 - kKeep) * sample;
}

// An I/O thread reads `root`, `chain`, `first`, `named`, and `abandoned`, and writes the fields of its task. The step
// thread uses the fetch only while no task runs, except for `wait`, `blocks`, and `abandoned`.
struct KvFetcher::Fetch {
  StoreRootPtr root;
  std::vector<int32_t> ids;
  std::vector<kv::Chunk> chain;
  size_t first = 0;                    // chunks that the cache had
  size_t named = 0;                    // chunks after those that have been named
  size_t found = 0;                    // chunks after `first` in the store, by the lookup's task
  std::vector<ChunkBuffer> read;       // by the read's task
  size_t batch = 0;                    // chunks to read
  double seconds = 0;                  // of the task
  nanoseconds started{0};              // without the time that a finished lookup waited for Collect
  nanoseconds end{0};                  // when it is abandoned
  std::atomic<bool> abandoned{false};  // true = the task should end soon
  std::vector<KvBlocks::Ref> blocks;   // of all chunks so far, so that they are not evicted
  std::shared_ptr<KvWait> wait = std::make_shared<KvWait>();

  const base::Key128& key() const { return chain[first].key; }
  size_t next() const { return first + named; }
};

KvFetcher::KvFetcher(Parts parts, const kv::Options& options)
    : parts_(std::move(parts)),
      options_(options),
      blocks_(*parts_.blocks),
      io_({.name = "kv reader", .threads = options.io_threads}) {}

KvFetcher::~KvFetcher() {
  stopping_ = true;
  io_.Shutdown();
}

void KvFetcher::Look(Sequence& sequence, const StoreRootPtr& root) {
  if (sequence.kv_looked_salt == root->salt || Awaits(sequence, root->salt) || hanging_ > 0) return;
  sequence.kv_looked_salt = root->salt;
  const std::shared_ptr<const KvWait> waited = std::exchange(sequence.kv_wait, nullptr);
  const auto ids = std::span<const int32_t>(sequence.tokens).first(sequence.reusable());
  if (!sequence.contents.KeyOf(0, ids.size()).empty()) return;  // a chunk's key has only ids
  const size_t chunks = ids.size() / static_cast<size_t>(options_.chunk_tokens);
  const size_t first = static_cast<size_t>(blocks_.CountMatch(root->salt, ids)) / root->blocks_per_chunk;
  if (chunks <= first) return;
  const bool pays = Pays(chunks - first);
  if (!pays && ++declined_ % kTryAgain != 0) return;
  auto fetch = std::make_shared<Fetch>();
  fetch->root = root;
  fetch->ids.assign(ids.begin(), ids.end());
  fetch->chain = kv::ChainOf(root->key, ids, options_.chunk_tokens);
  fetch->first = first;
  fetch->started = parts_.clock->Now();
  fetch->wait->salt = root->salt;
  if (waited != nullptr && waited->over && waited->next == fetch->key()) return;  // it was just asked for
  const auto [at, is_new] = fetches_.try_emplace(fetch->key(), fetch);
  if (pays) sequence.kv_wait = at->second->wait;
  if (!is_new) {
    if (Awaits(sequence, root->salt)) sequence.kv_looked_salt = 0;  // it may need more chunks after those
    return;
  }
  SetDeadline(*fetch, chunks - first);
  Post(fetch, &KvFetcher::Lookup, &KvFetcher::LookedUp);
}

bool KvFetcher::Awaits(const Sequence& sequence, uint64_t salt) const {
  const KvWait* wait = sequence.kv_wait.get();
  return wait != nullptr && wait->salt == salt && !wait->over && parts_.clock->Now() < wait->deadline;
}

double KvFetcher::ComputeSeconds(size_t chunks) const {
  return token_seconds_.average * static_cast<double>(options_.chunk_tokens) * static_cast<double>(chunks);
}

bool KvFetcher::Pays(size_t chunks) const {
  if (token_seconds_.samples == 0) return true;
  return !chunk_seconds_.exceeds(kWaitShare * ComputeSeconds(1)) &&
         !lookup_seconds_.exceeds(kLookupShare * ComputeSeconds(chunks));
}

// Returns the seconds that a request waits for so many chunks at most.
double KvFetcher::WaitSeconds(size_t chunks) const {
  const double compute = ComputeSeconds(chunks);
  if (compute == 0) return kFirstWaitSeconds;
  const double read = lookup_seconds_.average + chunk_seconds_.average * static_cast<double>(chunks);
  if (chunk_seconds_.samples == 0 || read > kWaitShare * compute) return kBlindShare * compute;
  return std::min(kWaitShare * compute, std::max(2 * read, kLeastWaitSeconds));
}

// Requests stop waiting before the fetch is abandoned, so that slow reading is measured.
void KvFetcher::SetDeadline(Fetch& fetch, size_t chunks) const {
  const double wait = WaitSeconds(chunks);
  fetch.wait->deadline = fetch.started + base::FromSeconds(wait);
  fetch.end = parts_.clock->Now() + base::FromSeconds(std::max(wait, ComputeSeconds(chunks)));
}

nanoseconds KvFetcher::next_deadline() const {
  const nanoseconds now = parts_.clock->Now();
  nanoseconds next = nanoseconds::max();
  for (const auto& [key, fetch] : fetches_) {
    next = std::min({next, fetch->end, fetch->wait->deadline > now ? fetch->wait->deadline : fetch->end});
  }
  return next;
}

// Runs `work` on an I/O thread, and then `then` in Collect.
void KvFetcher::Post(const FetchPtr& fetch, void (KvFetcher::*work)(Fetch&), void (KvFetcher::*then)(const FetchPtr&)) {
  io_.Post([this, fetch, work, then] {
    if (!stopping_ && !fetch->abandoned) (this->*work)(*fetch);
    {
      base::MutexLock lock(mu_);
      done_.push_back([this, fetch, then] { (this->*then)(fetch); });
    }
    if (!stopping_) parts_.wake();
  });
}

void KvFetcher::Lookup(Fetch& fetch) {
  const nanoseconds start = parts_.clock->Now();
  fetch.found = static_cast<size_t>(
      parts_.store->Longest(fetch.root->root, std::span<const kv::Chunk>(fetch.chain).subspan(fetch.first)));
  fetch.seconds = Seconds(parts_.clock->Now() - start);
}

void KvFetcher::LookedUp(const FetchPtr& fetch) {
  if (fetch->seconds > 0) lookup_seconds_.Add(fetch->seconds);  // 0 = it was abandoned before that
  stats_.fetch_seconds += fetch->seconds;
  fetch->started = parts_.clock->Now() - base::FromSeconds(std::exchange(fetch->seconds, 0));
  if (fetch->wait->over) {
    --hanging_;
    return;
  }
  for (size_t i = fetch->first; i < fetch->chain.size(); ++i) {
    const base::Key128& key = fetch->chain[i].key;
    i < fetch->first + fetch->found ? parts_.writer->Found(key) : parts_.writer->Missed(key);
  }
  if (fetch->found == 0 || !HoldPrefix(*fetch)) return Finish(*fetch);
  SetDeadline(*fetch, fetch->found);
  ReadNext(fetch);
}

// Holds the blocks before the first chunk. Lowers `found` to the chunks for which there are blocks.
bool KvFetcher::HoldPrefix(Fetch& fetch) {
  const size_t per = fetch.root->blocks_per_chunk, before = fetch.first * per;
  const int64_t room = std::min<int64_t>(blocks_.available(), blocks_.total() / kBlocksShare - held_blocks_);
  fetch.found = std::min(fetch.found, static_cast<size_t>(std::max<int64_t>(room, 0)) / per);
  fetch.blocks =
      blocks_.Match(fetch.root->salt, std::span<const int32_t>(fetch.ids).first(before * blocks_.block_tokens()));
  held_blocks_ += std::ssize(fetch.blocks);
  return fetch.found > 0 && fetch.blocks.size() == before;
}

void KvFetcher::ReadNext(const FetchPtr& fetch) {
  const int64_t bytes = std::max<int64_t>(fetch->root->chunk_bytes, 1);
  const int64_t room = (options_.max_pending_bytes - reading_bytes_) / bytes;
  fetch->batch = std::min({fetch->found - fetch->named, static_cast<size_t>(std::max<int64_t>(kBatchBytes / bytes, 1)),
                           static_cast<size_t>(std::max<int64_t>(room, 0))});
  if (fetch->batch == 0) return Finish(*fetch);
  reading_bytes_ += static_cast<int64_t>(fetch->batch) * bytes;
  Post(fetch, &KvFetcher::Read, &KvFetcher::NameRead);
}

void KvFetcher::Read(Fetch& fetch) {
  const nanoseconds start = parts_.clock->Now();
  for (size_t i = 0; i < fetch.batch && !stopping_ && !fetch.abandoned; ++i) {
    ChunkBuffer bytes(fetch.root);
    if (!parts_.store->Get(fetch.root->root, fetch.chain[fetch.next() + i], bytes.ToRead()).ok()) break;
    fetch.read.push_back(std::move(bytes));
  }
  fetch.seconds = Seconds(parts_.clock->Now() - start);
}

void KvFetcher::NameRead(const FetchPtr& fetch) {
  const std::vector<ChunkBuffer> read = std::exchange(fetch->read, {});
  reading_bytes_ -= static_cast<int64_t>(fetch->batch) * std::max<int64_t>(fetch->root->chunk_bytes, 1);
  const double seconds = std::exchange(fetch->seconds, 0);
  stats_.fetch_seconds += seconds;
  if (!read.empty()) chunk_seconds_.Add(seconds / static_cast<double>(read.size()));
  if (fetch->wait->over) {
    --hanging_;
    return;
  }
  const std::shared_ptr<const WeightVersion> version = fetch->root->version.lock();
  bool whole = read.size() == fetch->batch && version != nullptr;
  if (version != nullptr) (*named_)(*version);
  for (size_t i = 0; version != nullptr && i < read.size(); ++i) {
    if (!NameChunk(*fetch, read[i])) {
      whole = false;
      break;
    }
  }
  if (read.size() < fetch->batch) parts_.writer->Missed(fetch->chain[fetch->next()].key);
  if (!whole) ++stats_.abandoned;
  if (!whole || fetch->named == fetch->found) return Finish(*fetch);
  ReadNext(fetch);
}

// Copies the next chunk to new blocks and names them. Returns false if there are no blocks, or if the version's names
// were dropped.
bool KvFetcher::NameChunk(Fetch& fetch, const ChunkBuffer& bytes) {
  const size_t per = fetch.root->blocks_per_chunk, begin = fetch.next() * per;
  const auto size = static_cast<size_t>(blocks_.block_tokens());
  if (static_cast<size_t>(blocks_.available()) < per) return false;
  for (size_t i = 0; i < per; ++i) fetch.blocks.push_back(*blocks_.Allocate());
  held_blocks_ += static_cast<int64_t>(per);
  bytes.CopyTo(std::span<const KvBlocks::Ref>(fetch.blocks).last(per));
  const std::span<const int32_t> ids = fetch.ids;
  for (size_t i = begin; i < begin + per; ++i) {
    const KvBlocks::Ref* parent = i == 0 ? nullptr : &fetch.blocks[i - 1];
    if (!blocks_.Publish(fetch.root->salt, parent, ids.subspan(i * size, size), &fetch.blocks[i])) return false;
  }
  ++fetch.named;
  stats_.fetched_tokens += options_.chunk_tokens;
  return true;
}

void KvFetcher::Finish(Fetch& fetch) {
  held_blocks_ -= std::ssize(fetch.blocks);
  KvBlocks::ReleaseAll(fetch.blocks);
  fetch.wait->over = true;
  if (fetch.next() < fetch.chain.size()) fetch.wait->next = fetch.chain[fetch.next()].key;
  fetches_.erase(fetch.key());
}

// A running task does not use the blocks.
void KvFetcher::AbandonLate(nanoseconds now) {
  std::vector<FetchPtr> late;
  for (const auto& [key, fetch] : fetches_) {
    if (now >= fetch->end) late.push_back(fetch);
  }
  for (const FetchPtr& fetch : late) {
    ++hanging_;
    ++stats_.abandoned;
    fetch->abandoned = true;
    Finish(*fetch);
  }
}

void KvFetcher::Collect(const Named& named) {
  std::deque<std::function<void()>> done;
  {
    base::MutexLock lock(mu_);
    done.swap(done_);
  }
  named_ = &named;
  for (const auto& task : done) task();
  named_ = nullptr;
  AbandonLate(parts_.clock->Now());
}

void KvFetcher::Computed(int64_t rows, nanoseconds took) {
  if (rows >= kMeasuredRows) token_seconds_.Add(Seconds(took) / static_cast<double>(rows));
}

}  // namespace ingot::rollout
