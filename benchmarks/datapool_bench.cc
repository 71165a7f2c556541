// Durable writes of the data pool: latency and throughput of AppendCall by number of writers; then the cost of one
// append and of one reward by the size of the episode's task; then groups that share a system prompt: their bytes on
// disk, and the time to read and to delete one.
//
//   datapool_bench [folder] [seconds per line]      measures the folder's disk; default: a temporary folder
//   datapool_bench FOLDER SECONDS POSTGRES_URL      16 writers and 1, RocksDB and PostgreSQL in turns, three rounds
//                                                   (benchmarks/pool_postgres.sh starts the servers)
//
// Each writer records an agent that grows one conversation: every call continues the one before, brings 200 prompt and
// 300 sampled tokens, and returns after its fsync. An episode has 20 calls. Bytes are of the messages.
//
// By task: one writer. Episodes are opened and calls are built before the clock starts. CPU is of all threads,
// RocksDB's included. "written" are the bytes that the process passed to write(2): logs, tables, compaction. A reward
// changes one signal.
//
// By system prompt: 50 groups of 8 episodes, of 1 or 20 calls each. The first prompt of every episode begins with the
// same system prompt, a separate segment. Bytes are of all files, after the pool was closed and reopened. Then every
// group is read once, and all are deleted.
//
// Not measured: gRPC.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "datapool/store.h"
#include "tree/segment_key.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace ingot;

constexpr int kCallsPerEpisode = 20;
constexpr int kPromptTokens = 200;
constexpr int kSampledTokens = 300;

v1::Segment RandomSegment(std::mt19937_64& rng, bool sampled, int tokens) {
  v1::Segment segment;
  segment.set_source(sampled ? v1::SOURCE_SAMPLED : v1::SOURCE_PROMPT);
  for (int i = 0; i < tokens; ++i) segment.add_token_ids(static_cast<int32_t>(rng() % 150000));
  if (!sampled) return segment;
  for (int i = 0; i < tokens; ++i) segment.add_logprobs(-static_cast<float>(rng() % 1000000) * 1e-5f);
  segment.add_versions()->set_count(tokens);
  return segment;
}

struct Result {
  std::vector<double> milliseconds;
  int64_t bytes = 0;
};

void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

v1::StoreEpisodeRequest Opening(const std::string& id, int64_t group, size_t task_bytes) {
  v1::StoreEpisodeRequest open;
  open.mutable_episode()->set_episode_id(id);
  open.mutable_episode()->mutable_ref()->set_group_id(group);
  open.mutable_episode()->mutable_task()->set_payload_json(std::string(task_bytes, 'x'));
  return open;
}

// The next call of an episode that has `call` calls, whose prompts and samples have `tokens` so far.
v1::AppendCallRequest NextCall(std::mt19937_64& rng, const std::string& id, int call, int64_t& tokens) {
  v1::AppendCallRequest request;
  request.mutable_call()->set_call_id(id + "/" + std::to_string(call));
  request.mutable_call()->set_episode_id(id);
  request.mutable_call()->set_sequence(call);
  *request.add_segments() = RandomSegment(rng, false, kPromptTokens);
  *request.add_segments() = RandomSegment(rng, true, kSampledTokens);
  if (call > 0) {
    request.mutable_call()->set_parent_call_id(id + "/" + std::to_string(call - 1));
    request.mutable_call()->set_continued_segments(1);
  }
  tokens += request.segments(0).token_ids_size();
  request.mutable_call()->set_context_tokens(tokens);
  tokens += request.segments(1).token_ids_size();
  request.mutable_call()->add_context_keys(tree::SegmentKey(request.segments(0)));
  request.mutable_call()->add_sampled_keys(tree::SegmentKey(request.segments(1)));
  return request;
}

Result Write(datapool::Client& pool, int writer, int round, Clock::time_point end) {
  std::mt19937_64 rng(writer * 1000 + round);
  Result result;
  for (int episode = 0; Clock::now() < end; ++episode) {
    const std::string id = std::to_string(round) + "-" + std::to_string(writer) + "-" + std::to_string(episode);
    const int64_t group = (round * 100 + writer) * int64_t{1000000} + episode;
    if (const auto status = pool.StoreEpisode(Opening(id, group, 0)); !status.ok()) Fail(status);
    int64_t tokens = 0;
    for (int call = 0; call < kCallsPerEpisode && Clock::now() < end; ++call) {
      const v1::AppendCallRequest request = NextCall(rng, id, call, tokens);
      const auto start = Clock::now();
      if (const auto status = pool.AppendCall(request); !status.ok()) Fail(status);
      result.milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      result.bytes += static_cast<int64_t>(request.ByteSizeLong());
    }
  }
  return result;
}

// Prints a line; returns calls a second.
double Measure(datapool::Client& pool, const char* name, int writers, int round, double seconds) {
  std::vector<Result> results(writers);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] { results[w] = Write(pool, w, round, end); });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<double> all;
  int64_t bytes = 0;
  for (const Result& result : results) {
    all.insert(all.end(), result.milliseconds.begin(), result.milliseconds.end());
    bytes += result.bytes;
  }
  std::sort(all.begin(), all.end());
  const auto quantile = [&](double q) { return all.empty() ? 0 : all[static_cast<size_t>(q * (all.size() - 1))]; };
  std::printf("%-18s %3d writers  %8.0f calls/s  %7.1f MB/s  p50 %7.2f ms  p99 %7.2f ms  max %7.2f ms\n", name, writers,
              static_cast<double>(all.size()) / elapsed, static_cast<double>(bytes) / elapsed / 1e6, quantile(0.5),
              quantile(0.99), quantile(1));
  return static_cast<double>(all.size()) / elapsed;
}

// Resources that the process has used since its start.
struct Usage {
  double cpu_ms = 0;
  int64_t written_bytes = 0;
  Clock::time_point at = Clock::now();
};

Usage Used() {
  Usage usage;
  rusage times{};
  ::getrusage(RUSAGE_SELF, &times);
  const auto milliseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) * 1e-3;
  };
  usage.cpu_ms = milliseconds(times.ru_utime) + milliseconds(times.ru_stime);
  std::ifstream io("/proc/self/io");
  for (std::string name; io >> name;) {
    if (name == "wchar:") io >> usage.written_bytes;
  }
  return usage;
}

void PrintEach(const char* what, size_t task_bytes, size_t count, const Usage& before) {
  const Usage used = Used();
  const auto each = static_cast<double>(count);
  std::printf("task %8zu bytes  %-7s %6zu times  CPU %7.3f ms  %7.3f ms  written %9.1f KB each\n", task_bytes, what,
              count, (used.cpu_ms - before.cpu_ms) / each,
              std::chrono::duration<double, std::milli>(used.at - before.at).count() / each,
              static_cast<double>(used.written_bytes - before.written_bytes) / each / 1e3);
}

void MeasureByTask(datapool::Client& pool, size_t task_bytes, int round) {
  constexpr int kEpisodes = 40;
  constexpr int kRewards = 400;
  std::mt19937_64 rng(round);
  std::vector<std::string> ids;
  for (int i = 0; i < kEpisodes; ++i) {
    ids.push_back("task-" + std::to_string(round) + "-" + std::to_string(i));
    const auto status = pool.StoreEpisode(Opening(ids.back(), (1000 + round) * int64_t{1000000} + i, task_bytes));
    if (!status.ok()) Fail(status);
  }
  std::vector<v1::AppendCallRequest> calls;
  for (const std::string& id : ids) {
    int64_t tokens = 0;
    for (int call = 0; call < kCallsPerEpisode; ++call) calls.push_back(NextCall(rng, id, call, tokens));
  }
  const Usage appends = Used();
  for (const v1::AppendCallRequest& call : calls) {
    if (const auto status = pool.AppendCall(call); !status.ok()) Fail(status);
  }
  PrintEach("append", task_bytes, calls.size(), appends);
  const Usage rewards = Used();
  for (int i = 0; i < kRewards; ++i) {
    v1::StoreRewardRequest reward;
    reward.set_episode_id(ids[i % kEpisodes]);
    (*reward.mutable_signals())["progress"] = i + 1;
    if (const auto status = pool.StoreReward(reward); !status.ok()) Fail(status);
  }
  PrintEach("reward", task_bytes, kRewards, rewards);
}

datapool::StoreOptions WithoutSync(const std::string& path) {
  datapool::StoreOptions options;
  options.path = path;
  options.sync = false;
  return options;
}

// Puts `system` in front of the prompt of an episode's first call.
void AddSystemPrompt(const v1::Segment& system, v1::AppendCallRequest& first) {
  v1::Call& call = *first.mutable_call();
  const std::string task_key = call.context_keys(0);
  call.set_context_keys(0, tree::SegmentKey(system));
  call.add_context_keys(task_key);
  call.set_context_tokens(call.context_tokens() + system.token_ids_size());
  *first.add_segments() = system;
}

void MeasureBySystemPrompt(const std::string& path, int system_tokens, int calls) {
  constexpr int kGroups = 50;
  constexpr int kGroupSize = 8;
  std::mt19937_64 rng(1);
  const v1::Segment system = RandomSegment(rng, false, system_tokens);
  {
    auto pool = datapool::OpenPool(WithoutSync(path));
    if (!pool.ok()) Fail(pool.status());
    for (int i = 0; i < kGroups * kGroupSize; ++i) {
      const std::string id = std::to_string(i);
      v1::StoreEpisodeRequest open = Opening(id, i / kGroupSize, 0);
      open.mutable_episode()->mutable_ref()->set_sample_index(i % kGroupSize);
      if (const auto status = (*pool)->StoreEpisode(open); !status.ok()) Fail(status);
      int64_t tokens = 0;
      for (int call = 0; call < calls; ++call) {
        v1::AppendCallRequest request = NextCall(rng, id, call, tokens);
        if (call == 0 && system_tokens > 0) {
          AddSystemPrompt(system, request);
          tokens += system_tokens;
        }
        if (const auto status = (*pool)->AppendCall(request); !status.ok()) Fail(status);
      }
    }
  }
  auto pool = datapool::OpenPool(WithoutSync(path));
  if (!pool.ok()) Fail(pool.status());
  const v1::PoolStatusResponse status = (*pool)->Status().value();
  const auto milliseconds_of = [](const auto& work) {
    const auto start = Clock::now();
    if (const absl::Status done = work(); !done.ok()) Fail(done);
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  const double read_ms = milliseconds_of([&] {
    absl::Status read;
    for (int group = 0; group < kGroups && read.ok(); ++group) {
      v1::GetGroupRequest get;
      get.set_group_id(group);
      read = (*pool)->GetGroup(get).status();
    }
    return read;
  });
  const double trim_ms = milliseconds_of([&] {
    v1::TrimRequest trim;
    for (int group = 0; group < kGroups; ++group) trim.add_group_ids(group);
    return (*pool)->Trim(trim).status();
  });
  std::printf(
      "system prompt %6d tokens  %2d calls an episode  %9lld tokens stored  %8.2f MB on disk  "
      "read %7.2f ms  trim %7.2f ms a group\n",
      system_tokens, calls, static_cast<long long>(status.segment_tokens()),
      static_cast<double>(status.bytes_on_disk()) / 1e6, read_ms / kGroups, trim_ms / kGroups);
}

// The pool on RocksDB in `folder` and the pool in the database, in turns.
void CompareWithPostgres(const std::string& folder, double seconds, const std::string& url) {
  datapool::StoreOptions files, database;
  files.path = folder + "/rocksdb";
  database.path = folder + "/postgres";
  database.backend = "postgres";
  database.postgres.url = url;
  database.postgres.name = "bench";
  database.postgres.replace = true;
  auto rocksdb = datapool::OpenPool(files);
  if (!rocksdb.ok()) Fail(rocksdb.status());
  auto postgres = datapool::OpenPool(database);
  if (!postgres.ok()) Fail(postgres.status());
  int round = 0;
  for (const int writers : {16, 1}) {
    std::vector<double> on_files, in_database;
    for (int turn = 0; turn < 3; ++turn) {
      on_files.push_back(Measure(**rocksdb, "RocksDB", writers, round, seconds));
      in_database.push_back(Measure(**postgres, "PostgreSQL", writers, round++, seconds));
    }
    std::sort(on_files.begin(), on_files.end());
    std::sort(in_database.begin(), in_database.end());
    std::printf("%3d writers, median: RocksDB %.0f, PostgreSQL %.0f calls/s, %.1f %% of RocksDB's\n", writers,
                on_files[1], in_database[1], 100 * in_database[1] / on_files[1]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = argc > 1 ? argv[1] : "";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5;
  std::string made = (std::filesystem::temp_directory_path() / "ingot-bench-XXXXXX").string();
  if (folder.empty()) folder = ::mkdtemp(made.data());
  if (argc > 3) {
    CompareWithPostgres(folder, seconds, argv[3]);
    return 0;
  }
  for (const bool sync : {true, false}) {
    datapool::StoreOptions options;
    options.path = folder + (sync ? "/sync" : "/nosync");
    options.sync = sync;
    auto pool = datapool::OpenPool(options);
    if (!pool.ok()) Fail(pool.status());
    int round = 0;
    for (const int writers : {1, 8, 32}) {
      Measure(**pool, sync ? "fsync" : "no fsync (test)", writers, round++, seconds);
    }
  }
  datapool::StoreOptions options;
  options.path = folder + "/by-task";
  auto pool = datapool::OpenPool(options);
  if (!pool.ok()) Fail(pool.status());
  int round = 0;
  for (const size_t task_bytes : {0, 100'000, 1'000'000}) MeasureByTask(**pool, task_bytes, round++);
  pool->reset();
  for (const int calls : {1, 20}) {
    for (const int tokens : {0, 2'000, 20'000}) {
      MeasureBySystemPrompt(folder + "/system-" + std::to_string(tokens) + "-" + std::to_string(calls), tokens, calls);
    }
  }
  if (folder == made) std::filesystem::remove_all(folder);
  return 0;
}
