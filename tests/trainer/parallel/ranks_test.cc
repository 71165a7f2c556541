#include "trainer/parallel/ranks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "../tiny_model.h"
#include "base/device_failure.h"
#include "rank_group.h"
#include "trainer/parallel/rank_memory.h"
#include "trainer/parallel/sharded_adamw.h"

namespace ingot::trainer::ranks_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Ranks, ExchangeTensorsOfAnyTypeInTheOrderOfRanks) {
  OnRanks(3, [](Ranks& ranks) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble, at::kLong}) {
      const at::Tensor own = at::full({2, 3}, ranks.rank() + 1, type);
      const auto gathered = ranks.Gather(own, /*root=*/1);
      ASSERT_TRUE(gathered.ok()) << gathered.status();
      ASSERT_EQ(gathered->size(), ranks.rank() == 1 ? 3u : 0u);
      for (size_t r = 0; r < gathered->size(); ++r) {
        EXPECT_TRUE(at::equal((*gathered)[r], at::full({2, 3}, static_cast<int64_t>(r) + 1, type)));
      }
      ASSERT_TRUE(ranks.Broadcast(own, /*root=*/2).ok());
      EXPECT_TRUE(at::equal(own, at::full({2, 3}, 3, type)));
    }
    ranks.Leave();
  });
}

TEST(Ranks, ExchangeBytesOfAnyLength) {
  OnRanks(2, [](Ranks& ranks) {
    const std::string own = ranks.leads() ? "" : std::string("a\0b", 3);
    EXPECT_THAT(*ranks.AllGatherBytes(own), ElementsAre("", std::string("a\0b", 3)));
    EXPECT_EQ(*ranks.BroadcastBytes(own, 1), std::string("a\0b", 3));
    EXPECT_EQ(*ranks.BroadcastBytes(own, 0), "");
    const std::string large(size_t{5} << 20, ranks.leads() ? 'x' : 'y');
    EXPECT_EQ(*ranks.BroadcastBytes(large, 0), std::string(large.size(), 'x'));
    ranks.Leave();  // the other may not be done yet
  });
}

TEST(Ranks, GatherBytesOnTheirRoot) {
  OnRanks(3, [](Ranks& ranks) {
    const auto own = std::string(static_cast<size_t>(5 * ranks.rank()), static_cast<char>('a' + ranks.rank()));
    const auto all = ranks.GatherBytes(own, 1);
    ASSERT_TRUE(all.ok()) << all.status();
    const std::vector<std::string> wanted = {"", "bbbbb", "cccccccccc"};
    EXPECT_EQ(*all, ranks.rank() == 1 ? wanted : std::vector<std::string>());
  });
}

TEST(Ranks, AgreeOnTheErrorOfTheLowestAndGoOn) {
  OnRanks(3, [](Ranks& ranks) {
    EXPECT_TRUE(ranks.Agree(absl::OkStatus()).ok());
    const absl::Status own =
        ranks.rank() == 0 ? absl::OkStatus() : absl::ResourceExhaustedError(absl::StrCat("no room on ", ranks.rank()));
    const absl::Status agreed = ranks.Agree(own);
    EXPECT_EQ(agreed.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(agreed.message(), "rank 1: no room on 1");
    EXPECT_TRUE(Ranks::IsAgreed(agreed));
    EXPECT_FALSE(ranks.broken());
    EXPECT_EQ(ranks.Agree(agreed), agreed);  // an agreed error: nothing is exchanged
    EXPECT_TRUE(ranks.Agree(absl::OkStatus()).ok());
    ranks.Leave();
  });
}

TEST(Ranks, ARankWhoseDeviceFailedIsLostToTheOthers) {
  OnRanks(3, [](Ranks& ranks) {
    const absl::Status own =
        ranks.rank() == 1 ? base::DeviceFailure("an illegal memory access; restart it") : absl::OkStatus();
    const absl::Status agreed = ranks.Agree(own);
    EXPECT_EQ(agreed.message(), "rank 1: an illegal memory access; restart it");
    EXPECT_TRUE(Ranks::IsAgreed(agreed));
    EXPECT_EQ(base::IsDeviceFailure(agreed), ranks.rank() == 1);
    EXPECT_EQ(IsRankLost(agreed), ranks.rank() != 1);
    ranks.Leave();
  });
}

// Rank 1 wants three things, one after the other, while the others agree. Rank 2's request then meets an error.
TEST(Ranks, AgreeingRanksServeARankThatWants) {
  OnRanks(3, [](Ranks& ranks) {
    std::vector<std::vector<int64_t>> served;
    ranks.ServeWith([&](const std::vector<int64_t>& wanted) {
      served.push_back(wanted);
      return absl::OkStatus();
    });
    constexpr int64_t kNothing = Ranks::kNothing;
    if (ranks.rank() == 1) {
      for (const int64_t what : {5, 0, 5}) EXPECT_TRUE(ranks.Want(what).ok());
    }
    EXPECT_TRUE(ranks.Agree(absl::OkStatus()).ok());
    const absl::Status own = ranks.leads() ? absl::DataLossError("mine") : absl::OkStatus();
    const absl::Status failed = ranks.rank() == 2 ? ranks.Want(7) : ranks.Agree(own);
    EXPECT_EQ(failed.message(), "mine");
    EXPECT_THAT(served,
                ElementsAre(std::vector{kNothing, int64_t{5}, kNothing}, std::vector{kNothing, int64_t{0}, kNothing},
                            std::vector{kNothing, int64_t{5}, kNothing}));
    ranks.ServeWith(nullptr);
    ranks.Leave();
  });
}

TEST(Ranks, WaitersLoseARankThatEnds) {
  OnRanks(3, [](Ranks& ranks) {
    if (ranks.rank() == 2) return;  // without a goodbye
    const absl::Status status = ranks.Agree(absl::OkStatus());
    EXPECT_TRUE(IsRankLost(status)) << status;
    EXPECT_TRUE(ranks.broken());
    EXPECT_TRUE(IsRankLost(ranks.Broadcast(at::zeros({1}), 0)));
  });
}

TEST(Ranks, ARankThatBreaksTheGroupIsLostToTheOthers) {
  OnRanks(2, [](Ranks& ranks) {
    if (ranks.rank() == 1) {
      const absl::Status own = absl::InternalError("in the middle of it");
      EXPECT_EQ(ranks.BreakUnless([&]() -> absl::Status { return own; }), own);
      EXPECT_EQ(ranks.Agree(absl::OkStatus()), own);
      return;
    }
    EXPECT_TRUE(IsRankLost(ranks.Gather(at::zeros({4}), 0).status()));
  });
}

// Liveness does not depend on progress.
TEST(Ranks, ARankThatWorksLongerThanTheDeadlineIsNotLost) {
  constexpr milliseconds kDeadline{1500};
  OnRanks(
      2,
      [&](Ranks& ranks) {
        const auto until = std::chrono::steady_clock::now() + 2 * kDeadline;
        while (ranks.rank() == 1 && std::chrono::steady_clock::now() < until) {
        }
        EXPECT_TRUE(ranks.Agree(absl::OkStatus()).ok());
        ranks.Leave();
      },
      [&](RankOptions& options) { options.deadline = kDeadline; });
}

TEST(Ranks, InvalidOptionsAreRejected) {
  EXPECT_THAT(std::string(Ranks::Join(RankOf(2, 2, 1)).status().message()), HasSubstr("rank 2 is not one of 2"));
  RankOptions device = RankOf(0, 2, 1);
  device.device = "cuda:0";
  EXPECT_THAT(std::string(Ranks::Join(device).status().message()), HasSubstr("need the device library"));
  RankOptions alone = RankOf(0, 2, FreePort());
  alone.join_timeout = milliseconds(300);
  const absl::Status missing = Ranks::Join(alone).status();
  EXPECT_TRUE(IsRankLost(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("rank 1 of 2 did not connect"));
}

void NoDevices(const c10::intrusive_ptr<c10d::Store>&, int, int, NcclGroup*) { ADD_FAILURE() << "was asked"; }

TEST(Ranks, MixedDevicesAreRejected) {
  const int port = FreePort();
  std::vector<absl::Status> joined(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      RankOptions options = RankOf(rank, 2, port);
      if (rank == 1) {
        options.device = "cuda:1";
        options.nccl = &NoDevices;
      }
      joined[static_cast<size_t>(rank)] = Ranks::Join(options).status();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(joined[0].code(), absl::StatusCode::kInvalidArgument) << joined[0];
  EXPECT_THAT(std::string(joined[0].message()), HasSubstr("rank 0 computes on cpu, rank 1 on a device"));
  EXPECT_EQ(joined[1].code(), absl::StatusCode::kInvalidArgument) << joined[1];
}

TEST(Ranks, APortThatIsTakenIsAnErrorOfRankZero) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const absl::Status status = Ranks::Join(RankOf(0, 2, ntohs(address.sin_port))).status();
  close(fd);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_FALSE(IsRankLost(status));
}

// The peer is a bare socket that sends no beats, like a process that is stopped.
TEST(Liveness, SilenceLongerThanTheDeadlineIsALoss) {
  base::ManualClock clock;
  std::mutex mu;
  std::condition_variable reported;
  absl::Status lost;
  LivenessOptions options;
  options.size = 2;
  options.deadline = milliseconds(300);
  options.clock = &clock;
  options.on_lost = [&](const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mu);
    lost = status;
    reported.notify_all();
  };
  auto leader = Liveness::Listen(options);
  ASSERT_TRUE(leader.ok()) << leader.status();
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>((*leader)->port()));
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const unsigned char rank = 1;
  ASSERT_EQ(send(fd, &rank, 1, 0), 1);
  ASSERT_TRUE((*leader)->Accept().ok());
  EXPECT_TRUE((*leader)->status().ok());
  clock.Advance(milliseconds(301));
  std::unique_lock<std::mutex> lock(mu);
  reported.wait(lock, [&] { return !lost.ok(); });
  EXPECT_EQ(lost.message(), "rank 1 of 2 sent no heartbeat for 300 ms");
  EXPECT_TRUE(IsRankLost((*leader)->status()));
  close(fd);
}

int ConnectTo(in_addr_t host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

TEST(Liveness, AStrangerWithoutTheSecretIsNoRank) {
  LivenessOptions options;
  options.size = 2;
  options.secret = "known to ranks";
  auto leader = *Liveness::Listen(options);
  std::vector<int> strangers;
  for (const std::string& hello : {std::string("\1"), "\1" + std::string("known to stranger")}) {
    strangers.push_back(ConnectTo(INADDR_LOOPBACK, leader->port()));
    ASSERT_EQ(send(strangers.back(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
    shutdown(strangers.back(), SHUT_WR);
  }
  options.rank = 1;
  auto follower = *Liveness::Connect(options, leader->port());
  ASSERT_TRUE(leader->Accept().ok());
  for (const int fd : strangers) close(fd);
  follower->Leave();
  follower.reset();
  leader->Leave();
  EXPECT_TRUE(leader->status().ok()) << "a stranger that went away was no rank";
}

// The meeting place of ranks that share a secret, as any process of the machine sees it.
TEST(Ranks, AStrangerFindsNoAddressAtTheirMeetingPlace) {
  std::atomic<int> port = 0, places = 0;
  OnRanks(
      2,
      [&](Ranks& ranks) {
        if (!ranks.leads()) {
          EXPECT_EQ(ConnectTo(INADDR_LOOPBACK + 1, port), -1) << "only cluster.host is listened at";
          c10d::TCPStoreOptions options;
          options.port = static_cast<uint16_t>(port.load());
          options.waitWorkers = false;
          options.timeout = milliseconds(2000);
          c10d::TCPStore store("127.0.0.1", options);
          for (const char* key : {"beats_port", "ingot/beats_port", "ingot//beats_port"})
            EXPECT_FALSE(store.check({key}));
          EXPECT_TRUE(store.check({"ingot/the ranks' secret/beats_port"})) << "the key that ranks use";
          ++places;
        }
        EXPECT_TRUE(ranks.Agree(absl::OkStatus()).ok());
        ranks.Leave();
      },
      [&](RankOptions& options) {
        port = options.port;
        options.secret = "the ranks' secret";
      });
  EXPECT_EQ(places, 1);
}

TEST(Liveness, AGoodbyeIsNoLoss) {
  LivenessOptions options;
  base::ManualClock clock;  // stands still: a slow machine cannot make the silence too long
  options.size = 2;
  options.clock = &clock;
  auto leader = *Liveness::Listen(options);
  options.rank = 1;
  auto follower = *Liveness::Connect(options, leader->port());
  ASSERT_TRUE(leader->Accept().ok());
  follower->Leave();
  follower.reset();
  leader->Leave();  // reads the goodbye first
  EXPECT_TRUE(leader->status().ok());
}

TEST(ShardedAdamW, OwnersHoldEqualSharesAsFarAsWholeParametersAllow) {
  // 50 | 30 | 20 + 10 ..., the largest first: 50 -> 0, 30 -> 1, 20 -> 1, 10 -> 0 (tied at 50: the lower rank).
  EXPECT_THAT(OwnersOf({10, 20, 30, 50}, 2), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(OwnersOf({5}, 3), ElementsAre(0));
  EXPECT_THAT(OwnersOf(std::vector<int64_t>{}, 3), ElementsAre());
}

TEST(ShardedAdamW, ARankThatOwnsNothingTakesPart) {
  const auto make = [] {
    std::map<std::string, at::Tensor> parameters;
    parameters["w"] = at::full({2, 2}, 1.0, at::kFloat).requires_grad_(true);
    return parameters;
  };
  OptimizerOptions options;
  options.grad_clip_norm = 0;
  const auto alone = make();
  AdamW plain(options, alone);
  const at::Tensor own_grad = at::full({2, 2}, 3.0);  // the sum of the three ranks' gradients below
  at::Tensor(alone.at("w")).mutable_grad() = own_grad;
  plain.Step(0.1, plain.GradNorm());
  OnRanks(3, [&](Ranks& ranks) {
    const auto parameters = make();
    ShardedAdamW optimizer(options, parameters, &ranks);
    EXPECT_EQ(optimizer.State().size(), ranks.leads() ? 2u : 0u);
    at::Tensor w = parameters.at("w");
    if (ranks.rank() != 1) w.mutable_grad() = at::full({2, 2}, 1.5);  // rank 1 has an empty slot
    optimizer.EndSlot();
    EXPECT_FALSE(w.grad().defined());
    EXPECT_EQ(optimizer.GradNorm(), 6.0);
    optimizer.Step(0.1, 6.0);
    EXPECT_TRUE(at::equal(w.detach(), alone.at("w").detach()));
    ranks.Leave();
  });
}

// The prediction counts each rank's share of the optimizer, not the whole on each.
TEST(RankMemory, SharesOfTheOptimizerAddUp) {
  const model::ModelConfig config = TinyConfig();
  const tree::ForestPart part = UncutPart(64);
  const MemoryNeed whole = PredictMemory(config, 4, {}, std::span(&part, 1));
  model::ModelConfig large = config;
  large.hidden_size = 2048;
  large.intermediate_size = 8192;
  large.num_hidden_layers = 40;
  const std::vector<tree::ForestPart> parts = {UncutPart(1), UncutPart(1)};
  std::mutex mu;
  int64_t optimizer = 0;
  OnRanks(3, [&](Ranks& ranks) {
    const MemoryNeed need = PredictRankMemory(config, 4, {}, std::span(&part, 1), PlaceOf(&ranks));
    EXPECT_EQ(need.weights, whole.weights);
    EXPECT_GT(need.gradients, whole.gradients);  // the gathered bucket
    // The update, one rank's fullest moment, needs a third on each of three ranks; and the sums of a third lie beside a
    // second part.
    const MemoryNeed once = PredictRankMemory(large, 4, {}, std::span(parts).first(1), PlaceOf(&ranks));
    const MemoryNeed twice = PredictRankMemory(large, 4, {}, parts, PlaceOf(&ranks));
    EXPECT_LT(once.step(), PredictMemory(large, 4, {}, parts).step());
    EXPECT_NEAR(static_cast<double>(twice.step() - once.step()), static_cast<double>(once.optimizer) / 2,
                0.01 * static_cast<double>(once.optimizer));
    const std::lock_guard<std::mutex> lock(mu);
    optimizer += need.optimizer;
  });
  EXPECT_NEAR(static_cast<double>(optimizer), static_cast<double>(whole.optimizer), 3);
  EXPECT_EQ(PredictRankMemory(config, 4, {}, std::span(&part, 1), PlaceOf(nullptr)).total(), whole.total());
  EXPECT_EQ(RanksHere(nullptr), 1);
}

TEST(RankMemory, AFrozenBaseIsDividedByLayerToo) {
  model::ModelConfig large = TinyConfig();
  large.hidden_size = 2048;
  large.intermediate_size = 8192;
  large.num_hidden_layers = 40;
  large.lora = {.rank = 2, .alpha = 4, .targets = {"q_proj"}};
  const tree::ForestPart part = UncutPart(1);
  const auto weights = [&](bool by_layer) {
    const RankPlace place{1, 3};
    return static_cast<double>(PredictRankMemory(large, 4, {}, std::span(&part, 1), place, by_layer).weights);
  };
  EXPECT_LT(weights(true), 0.4 * weights(false)) << "a third, and the layer that runs";
}

}  // namespace
}  // namespace ingot::trainer::ranks_test
