#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// NCCL for the processes of one machine: what torch's ProcessGroupNCCL needs for broadcast, gather, and all-gather, which are the
// collectives of src/trainer/parallel. Other functions of NCCL end the process with their names (stubs/make_stubs.py). It is a part of the
// stand-in's libcudart.so.13, because an exchange is work of a stream.
//
// Every collective is a set of messages between pairs of ranks. A message is a file in the communicator's folder, whose path is the unique id:
//
//   FOLDER/SOURCE-TARGET-NUMBER    numbered by pair in the order of the calls; written under another name, then renamed; the target deletes it
//   FOLDER/device-N                created by the rank that computes on device N, because NCCL forbids two ranks on a device
//
// An exchange sends when its stream reaches it. It is ready once all its messages have arrived and all that it sent are taken, which is the
// latest time that NCCL allows. So a stream waits for the other ranks, and a thread that only asks about the stream does not block. As with
// NCCL, a rank that died is not noticed: its messages do not come, and only ncclCommAbort lets the stream continue. A message of another size
// ends the process, because the ranks have made different calls.
namespace ingot::standin {

class Communicator {
 public:
  Communicator(std::string folder, int rank, int size, int device)
      : folder_(std::move(folder)), rank_(rank), device_(device), sent_(size), received_(size) {}
  ~Communicator();  // the last rank deletes the folder

  // Returns false if another rank computes on this rank's device.
  bool TakeDevice() const;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(sent_.size()); }

  // The paths of the next message to and from a rank. Called in the order of the calls. Not thread-safe, like a communicator of NCCL.
  std::string NextSent(int target);
  std::string NextReceived(int source);

  // Thread-safe. From then on, exchanges change no memory and are ready.
  void Abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }

 private:
  std::string Path(int source, int target, uint64_t number) const;
  std::string DevicePath() const;

  const std::string folder_;
  const int rank_, device_;
  std::vector<uint64_t> sent_, received_;  // numbers, by the other rank
  std::atomic<bool> aborted_{false};
};

struct Message {
  std::string path;
  std::byte* bytes;
  size_t size;
};

// The calls of one group on one stream, as one work of it. Only the thread that runs the stream uses it after it was queued.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}

  Communicator& communicator() const { return *communicator_; }
  bool BelongsTo(const Communicator& communicator) const { return communicator_.get() == &communicator; }

  // Each adds to the exchange and returns false unless the memory is a device's. Nothing happens for 0 bytes.
  bool AddSend(const void* from, size_t bytes, int target);
  bool AddReceive(void* to, size_t bytes, int source);
  bool AddCopy(const void* from, void* to, size_t bytes);  // within this rank's memory

  // Sends and receives what it can. Returns whether the exchange is done.
  bool Advance();

 private:
  void Begin();

  const std::shared_ptr<Communicator> communicator_;
  std::vector<Message> sent_, received_;  // not taken, not arrived
  std::vector<std::pair<std::byte*, Message>> copies_;
  bool begun_ = false;
};

}  // namespace ingot::standin
