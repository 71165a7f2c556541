// The program of patroni_test.py: appends to a pool in PostgreSQL from several threads, says each acknowledgement, and
// reads them back.
//
//   failover_writer write URL FOLDER NAME    until SIGTERM; prints "call EPISODE SEQUENCE" and "journal STEP INDEX"
//   failover_writer verify URL FOLDER NAME   reads such lines from stdin; ends with 1 if one of them is not in the pool
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "datapool/make_pool.h"

namespace ingot::datapool {
namespace {

using Time = std::chrono::steady_clock;

constexpr int kThreads = 4, kCallsOfAnEpisode = 50;

volatile std::sig_atomic_t stop = 0;

absl::StatusOr<std::unique_ptr<Client>> OpenIt(char** argv) {
  StoreOptions options;
  options.backend = "postgres";
  options.postgres.url = argv[2];
  options.path = argv[3];
  options.postgres.name = argv[4];
  options.postgres.answer_timeout_s = 3;
  options.postgres.retry_after_error_s = 0.2;
  return OpenPool(options);
}

// A call is a function of its place.
v1::AppendCallRequest CallOf(const std::string& episode, int sequence) {
  std::vector<int32_t> ids(static_cast<size_t>(20 + sequence * 7 % 50), sequence);
  return testing::Append(episode, sequence, {testing::Prompt({1, 2, 3})}, {testing::Sampled(ids)});
}

class Acknowledgements {
 public:
  void Say(const std::string& line) {
    base::MutexLock lock(mu_);
    const Time::time_point now = Time::now();
    if (said_ > 0) longest_gap_ = std::max(longest_gap_, now - last_);
    last_ = now;
    ++said_;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  double LongestGap() {
    base::MutexLock lock(mu_);
    return std::chrono::duration<double>(longest_gap_).count();
  }

 private:
  base::Mutex mu_;
  int64_t said_ ABSL_GUARDED_BY(mu_) = 0;
  Time::time_point last_ ABSL_GUARDED_BY(mu_);
  Time::duration longest_gap_ ABSL_GUARDED_BY(mu_){};
};

// Sends until the pool answers; false = the program is to end.
template <typename Send>
bool UntilOk(const Send& send) {
  while (stop == 0) {
    const absl::Status status = send();
    if (status.ok()) return true;
    if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
      std::cerr << "refused: " << status << std::endl;
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

void Write(Client& pool, int thread, Acknowledgements& acknowledged) {
  for (int64_t group = thread;; group += kThreads) {
    const std::string id = std::to_string(group);
    if (!UntilOk([&] { return pool.StoreEpisode(testing::Open(id, group, 0)); })) return;
    for (int i = 0; i < kCallsOfAnEpisode; ++i) {
      if (!UntilOk([&] { return pool.AppendCall(CallOf(id, i)); })) return;
      acknowledged.Say("call " + id + " " + std::to_string(i));
    }
    int64_t index = -1;
    const auto append = [&] {
      const absl::StatusOr<int64_t> appended = pool.AppendJournal(testing::BatchRecord(group, {group}));
      index = appended.value_or(-1);
      return appended.status();
    };
    if (!UntilOk(append)) return;
    acknowledged.Say("journal " + id + " " + std::to_string(index));
  }
}

int RunWriter(Client& pool) {
  Acknowledgements acknowledged;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { Write(pool, i, acknowledged); });
  for (std::thread& thread : threads) thread.join();
  std::cerr << "longest gap " << acknowledged.LongestGap() << " s" << std::endl;
  return 0;
}

int Verify(Client& pool) {
  std::map<std::string, std::set<int>> calls;
  std::map<int64_t, int64_t> steps;  // index -> step
  int64_t appends = 0, lost = 0;
  for (std::string line; std::getline(std::cin, line); ++appends) {
    std::istringstream words(line);
    std::string kind, id;
    int64_t number = 0;
    words >> kind >> id >> number;
    if (kind == "call") calls[id].insert(static_cast<int>(number));
    if (kind == "journal") steps[number] = std::stoll(id);
  }
  for (const auto& [id, sequences] : calls) {
    std::map<int, std::string> stored;
    if (const auto tree = testing::Get(pool, id); tree.ok()) {
      for (const v1::Call& call : tree->calls()) stored[call.sequence()] = call.SerializeAsString();
    }
    for (const int i : sequences) lost += stored[i] != CallOf(id, i).call().SerializeAsString();
  }
  v1::ReadJournalRequest read;
  for (int64_t next = 0;;) {
    const auto page = pool.ReadJournal(read);
    if (!page.ok() || page->records().empty()) break;
    for (const v1::JournalRecord& record : page->records()) {
      const auto wanted = steps.find(record.index());
      lost += record.index() != next++ || (wanted != steps.end() && wanted->second != record.batch().step());
      if (wanted != steps.end()) steps.erase(wanted);
    }
    read.set_from_index(next);
  }
  lost += static_cast<int64_t>(steps.size());
  std::printf("%lld appends acknowledged, %lld lost\n", static_cast<long long>(appends), static_cast<long long>(lost));
  return appends > 0 && lost == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ingot::datapool

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  std::signal(SIGTERM, [](int) { ingot::datapool::stop = 1; });
  const auto pool = ingot::datapool::OpenIt(argv);
  if (!pool.ok()) {
    std::cerr << pool.status() << std::endl;
    return 1;
  }
  return argv[1] == std::string("write") ? ingot::datapool::RunWriter(**pool) : ingot::datapool::Verify(**pool);
}
