// The stand-in of NCCL by its functions alone: two ranks on two devices of one process. Runs with INGOT_STANDIN_DEVICES=2.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <vector>

namespace {

constexpr size_t kCount = 64;

// A rank with a stream and memory for each rank's floats on its device.
class Rank {
 public:
  Rank(const ncclUniqueId& id, int rank) : rank_(rank) {
    Enter();
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 2 * kCount * sizeof(float)), cudaSuccess);
    memory_ = static_cast<float*>(memory);
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm_, 2, id, rank), ncclSuccess);
  }
  ~Rank() {
    Enter();
    EXPECT_EQ(comm_ == nullptr ? ncclSuccess : ncclCommDestroy(comm_), ncclSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
  }

  void Fill(float value) {
    Enter();
    std::vector<float> values(2 * kCount, value);
    ASSERT_EQ(cudaMemcpy(memory_, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  }
  // The first and the last float of each rank's part, after all work of the stream.
  std::array<float, 4> Read() {
    Enter();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    std::vector<float> values(2 * kCount);
    EXPECT_EQ(cudaMemcpy(values.data(), memory_, values.size() * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    return {values[0], values[kCount - 1], values[kCount], values[2 * kCount - 1]};
  }
  // Asks often enough for the stream to move.
  bool Passed() {
    Enter();
    for (int i = 0; i < 1000; ++i) {
      if (cudaStreamQuery(stream_) == cudaSuccess) return true;
    }
    return false;
  }
  void Broadcast(int root) {
    Enter();
    ASSERT_EQ(ncclBroadcast(memory_, memory_, kCount, ncclFloat32, root, comm_, stream_), ncclSuccess);
  }
  void AllGather() {
    Enter();
    ASSERT_EQ(ncclAllGather(part(rank_), memory_, kCount, ncclFloat32, comm_, stream_), ncclSuccess);
  }
  void Exchange() {  // sends its own part, and receives the other's
    Enter();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(part(rank_), kCount, ncclFloat32, 1 - rank_, comm_, stream_), ncclSuccess);
    ASSERT_EQ(ncclRecv(part(1 - rank_), kCount, ncclFloat32, 1 - rank_, comm_, stream_), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  void Abort() {
    ASSERT_EQ(ncclCommAbort(comm_), ncclSuccess);
    comm_ = nullptr;
  }
  void Enter() { ASSERT_EQ(cudaSetDevice(rank_), cudaSuccess); }
  float* part(int rank) { return memory_ + static_cast<size_t>(rank) * kCount; }
  ncclComm_t comm() { return comm_; }
  cudaStream_t stream() { return stream_; }

 private:
  const int rank_;
  float* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

ncclUniqueId NewId() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

class OrderedNcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    first_.Fill(1);
    second_.Fill(2);
  }
  const ncclUniqueId id_ = NewId();
  Rank first_{id_, 0}, second_{id_, 1};
};

using Four = std::array<float, 4>;

TEST_F(OrderedNcclTest, Broadcasts) {
  first_.Broadcast(1);
  second_.Broadcast(1);
  EXPECT_FALSE(second_.Passed()) << "the first rank has not taken its message";
  EXPECT_TRUE(first_.Passed());
  EXPECT_TRUE(second_.Passed());
  EXPECT_EQ(first_.Read(), (Four{2, 2, 1, 1}));
  EXPECT_EQ(second_.Read(), (Four{2, 2, 2, 2}));
}

TEST_F(OrderedNcclTest, AStreamWaitsForTheOtherRankAndAQuestionDoesNot) {
  first_.AllGather();
  EXPECT_FALSE(first_.Passed());
  second_.AllGather();
  EXPECT_FALSE(second_.Passed());
  EXPECT_TRUE(first_.Passed());
  EXPECT_TRUE(second_.Passed());
  EXPECT_EQ(first_.Read(), (Four{1, 1, 2, 2}));
  EXPECT_EQ(second_.Read(), (Four{1, 1, 2, 2}));
}

TEST_F(OrderedNcclTest, SendsAndReceivesInAGroup) {
  first_.Exchange();
  second_.Exchange();
  first_.Passed();
  second_.Passed();
  EXPECT_EQ(first_.Read(), (Four{1, 1, 2, 2}));
  EXPECT_EQ(second_.Read(), (Four{1, 1, 2, 2}));
}

// A later work of the stream, and another stream that waits for its event, do not run before it.
TEST_F(OrderedNcclTest, OrdersLaterWork) {
  first_.Enter();
  cudaEvent_t exchanged = nullptr;
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaEventCreate(&exchanged), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0), cudaSuccess);
  first_.Broadcast(1);
  ASSERT_EQ(cudaEventRecord(exchanged, first_.stream()), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, exchanged, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(first_.part(1), first_.part(0), kCount * sizeof(float), cudaMemcpyDefault, other),
            cudaSuccess);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
  second_.Broadcast(1);
  EXPECT_FALSE(second_.Passed());
  first_.Enter();
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(first_.Read(), (Four{2, 2, 2, 2}));
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
  ASSERT_TRUE(second_.Passed());
}

TEST_F(OrderedNcclTest, AnAbortLetsTheStreamContinueAndChangesNoMemory) {
  first_.Broadcast(1);
  EXPECT_FALSE(first_.Passed());
  first_.Abort();
  EXPECT_EQ(first_.Read(), (Four{1, 1, 1, 1}));
}

TEST_F(OrderedNcclTest, RefusesTwoRanksOnADeviceAndMemoryOfTheHost) {
  float host[kCount] = {};
  first_.Enter();
  EXPECT_EQ(ncclBroadcast(host, host, kCount, ncclFloat32, 0, first_.comm(), first_.stream()), ncclInvalidArgument);
  ncclComm_t again = nullptr;
  EXPECT_EQ(ncclCommInitRank(&again, 2, id_, 1), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitRank(&again, 2, id_, 2), ncclInvalidArgument);
}

}  // namespace
