// Tests of a pool after kill -9. A child process writes to a pool and prints each acknowledgement. The parent kills it
// at a random moment, opens the pool and looks for every acknowledged write and for partial ones.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "base/checksum.h"
#include "datapool/make_pool.h"
#include "datapool/postgres/postgres_server.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Get;
using testing::Open;
using testing::Prompt;
using testing::Sampled;

constexpr int kThreads = 3;

// The url of the server that keeps the records; unset = RocksDB keeps them.
constexpr char kUrl[] = "INGOT_TEST_POSTGRES";

StoreOptions Options(const std::string& path) {
  StoreOptions options = testing::QuickOptions(path);
  options.sync = true;
  options.shards = 2;
  if (const char* url = std::getenv(kUrl); url != nullptr) {
    options.backend = "postgres";
    options.postgres.url = url;
    options.postgres.name = "killed";
    options.postgres.allow_single = true;
  }
  return options;
}

// A call is a function of its episode and sequence, so that the parent knows its content.
v1::AppendCallRequest CallOf(const std::string& episode, int sequence) {
  std::mt19937_64 rng(base::Checksum64(episode));
  std::vector<v1::Segment> context{Prompt({1, 2, 3, 4})};
  for (int i = 0; i < sequence; ++i) context.push_back(Sampled({static_cast<int32_t>(rng() % 1000), i}));
  std::vector<int32_t> ids(1 + rng() % 3000, static_cast<int32_t>(rng() % 1000));
  return Append(episode, sequence, context, {Sampled({static_cast<int32_t>(rng() % 1000), sequence}), Sampled(ids)});
}

v1::AppendJournalRequest RecordsOf(int64_t step) {
  v1::AppendJournalRequest request = testing::BatchRecord(step, {step, step + 1});
  for (int64_t i = 0; i < step % 4; ++i) request.add_records()->mutable_live()->set_version(step);
  return request;
}

// The reward of call `sequence`, sent after it.
v1::StoreRewardRequest RewardOf(const std::string& episode, int sequence) {
  return testing::Reward(episode, sequence, {{episode + "/" + std::to_string(sequence), 10.0 + sequence}});
}

void Say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) ::_exit(3);
}

// Writes until killed.
int RunChild(const std::string& path, int round) {
  auto opened = OpenPool(Options(path));
  if (!opened.ok()) {
    Say("error " + opened.status().ToString());
    return 1;
  }
  Client& pool = **opened;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pool, round, t] {
      for (int e = 0;; ++e) {
        const int64_t group = (round * kThreads + t) * 100000 + e;
        const std::string id = std::to_string(group);
        const auto check = [](const absl::Status& status, const std::string& line) {
          Say(status.ok() ? line : "error " + status.ToString());
        };
        check(pool.StoreEpisode(Open(id, group, 0)), "open " + id);
        for (int i = 0; i < 4; ++i) {
          check(pool.AppendCall(CallOf(id, i)), "call " + id + " " + std::to_string(i));
          check(pool.StoreReward(RewardOf(id, i)), "reward " + id + " " + std::to_string(i));
        }
        if (e % 2 == 0) check(pool.StoreEnd(End(id)), "end " + id);
        const auto index = pool.AppendJournal(RecordsOf(group));
        check(index.status(), "journal " + id + " " + std::to_string(index.value_or(-1)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

struct Acknowledged {
  std::map<std::string, std::set<int>> calls;  // of opened episodes
  std::map<std::string, int> rewarded;         // the last rewarded call
  std::set<std::string> ended;
  std::map<int64_t, int64_t> journal;  // step -> index
  int lines = 0;

  void Add(const std::string& line) {
    std::istringstream words(line);
    std::string kind, id;
    int64_t number = 0;
    words >> kind >> id >> number;
    ASSERT_NE(kind, "error") << line;
    ++lines;
    if (kind == "open") calls[id];
    if (kind == "call") calls[id].insert(static_cast<int>(number));
    if (kind == "reward") rewarded[id] = static_cast<int>(number);
    if (kind == "end") ended.insert(id);
    if (kind == "journal") journal[std::stoll(id)] = number;
  }
};

// Starts the child, reads `lines` acknowledgements, kills it, and reads the rest of its output.
void RunAndKill(const std::string& path, int round, int lines, Acknowledged& acknowledged) {
  int out[2];
  ASSERT_EQ(::pipe(out), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::close(out[0]);
    const std::string number = std::to_string(round);
    ::execl("/proc/self/exe", "store_kill_test", "--append", path.c_str(), number.c_str(), nullptr);
    ::_exit(2);
  }
  ::close(out[1]);
  FILE* const said = ::fdopen(out[0], "r");
  char buffer[512];
  int read = 0;
  while (std::fgets(buffer, sizeof(buffer), said) != nullptr) {
    const std::string line(buffer);
    if (line.back() != '\n') break;  // cut by the kill
    acknowledged.Add(line);
    if (++read == lines) ::kill(child, SIGKILL);
  }
  std::fclose(said);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
}

void Verify(const std::string& path, const Acknowledged& acknowledged) {
  auto pool = OpenPool(Options(path));
  ASSERT_TRUE(pool.ok()) << pool.status();
  for (const auto& [id, calls] : acknowledged.calls) {
    const auto tree = Get(**pool, id);
    ASSERT_TRUE(tree.ok()) << tree.status();
    std::map<int, const v1::Call*> found;
    for (const auto& call : tree->calls()) found[call.sequence()] = &call;
    for (const int sequence : calls) EXPECT_TRUE(found.contains(sequence)) << id << " call " << sequence;
    EXPECT_LE(found.size(), calls.size() + 1) << "only one was under way";
    EXPECT_EQ(tree->episode().state() == v1::EPISODE_FINISHED || !acknowledged.ended.contains(id), true) << id;
    if (const auto last = acknowledged.rewarded.find(id);
        last != acknowledged.rewarded.end() && tree->episode().state() == v1::EPISODE_OPEN) {
      const v1::Episode& episode = tree->episode();
      const int rewards = episode.call_rewards_size();
      EXPECT_GE(rewards, last->second + 1) << id;
      EXPECT_LE(rewards, last->second + 2) << "only one was under way";
      EXPECT_EQ(episode.reward(), rewards - 1) << "all of a post or nothing";
      for (int i = 0; i < rewards; ++i) EXPECT_EQ(episode.call_rewards().at(id + "/" + std::to_string(i)), 10.0 + i);
    }
    for (const auto& [sequence, call] : found) {  // every stored call is whole, acknowledged or not
      const auto wanted = CallOf(id, sequence);
      EXPECT_EQ(call->SerializeAsString(), wanted.call().SerializeAsString());
      for (const auto& segment : wanted.segments()) {
        EXPECT_EQ(tree->segments().at(base::Hex(tree::SegmentKey(segment))).SerializeAsString(),
                  segment.SerializeAsString());
      }
    }
  }
  v1::ReadJournalRequest read;
  std::map<int64_t, int64_t> first;
  std::map<int64_t, int> count;
  int64_t next = 0;
  while (true) {
    const auto page = (*pool)->ReadJournal(read).value();
    if (page.records().empty()) break;
    for (const auto& record : page.records()) {
      EXPECT_EQ(record.index(), next++);
      const int64_t step = record.has_batch() ? record.batch().step() : record.live().version();
      first.emplace(step, record.index());
      ++count[step];
    }
    read.set_from_index(next);
  }
  EXPECT_EQ((*pool)->Status()->journal_end(), next);
  for (const auto& [step, index] : acknowledged.journal) EXPECT_EQ(first.at(step), index);
  for (const auto& [step, records] : count) EXPECT_EQ(records, 1 + step % 4) << "all or none of an append";
  // The counters agree with the records.
  v1::ListEpisodesRequest list;
  list.set_last_group(-1);
  int64_t episodes = 0, calls = 0;
  for (bool more = true; more;) {
    const auto page = (*pool)->ListEpisodes(list).value();
    episodes += page.episodes_size();
    for (const auto& episode : page.episodes()) calls += Get(**pool, episode.episode_id())->calls_size();
    more = page.more();
    if (more) list.set_after(page.next());
  }
  EXPECT_EQ((*pool)->Status()->episodes(), episodes);
  EXPECT_EQ((*pool)->Status()->calls(), calls);
}

void KillAgainAndAgain(int rounds) {
  testing::TempDir dir;
  Acknowledged acknowledged;
  std::mt19937_64 rng(::getpid());
  for (int round = 0; round < rounds; ++round) {
    RunAndKill(dir.path(), round, 1 + static_cast<int>(rng() % 400), acknowledged);
    Verify(dir.path(), acknowledged);
    if (::testing::Test::HasFailure()) break;
  }
  std::printf("%d acknowledgements\n", acknowledged.lines);
  EXPECT_GT(acknowledged.lines, 10);
}

TEST(StoreKill, EverythingAcknowledgedSurvivesKillNine) { KillAgainAndAgain(10); }

TEST(StoreKill, EverythingAcknowledgedSurvivesKillNineInPostgres) {
  if (testing::PostgresPrograms().empty()) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
  const testing::PostgresServer server;
  ASSERT_TRUE(server.ok());
  ::setenv(kUrl, server.url().c_str(), 1);
  KillAgainAndAgain(5);
  ::unsetenv(kUrl);
}

}  // namespace
}  // namespace ingot::datapool

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--append") {
    return ingot::datapool::RunChild(argv[2], std::stoi(argv[3]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
