#include "standin/nccl/communicator.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "standin/runtime/memory.h"
#include "standin/runtime/settings.h"

namespace ingot::standin {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File Open(const std::string& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode));
  if (file == nullptr) Die("NCCL: cannot open %s: %s", path.c_str(), std::strerror(errno));
  return file;
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

void Write(const Message& message) {
  const std::string unfinished = message.path + ".part";
  {
    const File file = Open(unfinished, "wb");
    if (std::fwrite(message.bytes, 1, message.size, file.get()) != message.size || std::fflush(file.get()) != 0) {
      Die("NCCL: cannot write %s: %s", unfinished.c_str(), std::strerror(errno));
    }
  }
  if (std::rename(unfinished.c_str(), message.path.c_str()) != 0) Die("NCCL: cannot rename %s", unfinished.c_str());
}

// Returns false if the message has not arrived.
bool Take(const Message& message) {
  if (!Exists(message.path)) return false;
  const File file = Open(message.path, "rb");
  if (std::fread(message.bytes, 1, message.size, file.get()) != message.size || std::fgetc(file.get()) != EOF) {
    Die("NCCL: the message %s does not have the %zu bytes of this rank's call: the ranks have made different calls",
        message.path.c_str(), message.size);
  }
  ::unlink(message.path.c_str());
  return true;
}

std::byte* DeviceMemory(const void* pointer, size_t bytes) {
  return GetMemory().At(reinterpret_cast<uint64_t>(pointer), bytes);
}

}  // namespace

Communicator::~Communicator() {
  ::unlink(DevicePath().c_str());
  ::rmdir(folder_.c_str());
}

bool Communicator::TakeDevice() const {
  const int file = ::open(DevicePath().c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

std::string Communicator::DevicePath() const { return folder_ + "/device-" + std::to_string(device_); }

std::string Communicator::Path(int source, int target, uint64_t number) const {
  return folder_ + "/" + std::to_string(source) + "-" + std::to_string(target) + "-" + std::to_string(number);
}

std::string Communicator::NextSent(int target) { return Path(rank_, target, sent_[target]++); }
std::string Communicator::NextReceived(int source) { return Path(source, rank_, received_[source]++); }

bool Exchange::AddSend(const void* from, size_t bytes, int target) {
  if (bytes == 0) return true;
  std::byte* const memory = DeviceMemory(from, bytes);
  if (memory != nullptr) sent_.push_back({communicator_->NextSent(target), memory, bytes});
  return memory != nullptr;
}

bool Exchange::AddReceive(void* to, size_t bytes, int source) {
  if (bytes == 0) return true;
  std::byte* const memory = DeviceMemory(to, bytes);
  if (memory != nullptr) received_.push_back({communicator_->NextReceived(source), memory, bytes});
  return memory != nullptr;
}

bool Exchange::AddCopy(const void* from, void* to, size_t bytes) {
  if (bytes == 0 || from == to) return true;
  std::byte *const source = DeviceMemory(from, bytes), *const target = DeviceMemory(to, bytes);
  if (source == nullptr || target == nullptr) return false;
  copies_.push_back({target, {"", source, bytes}});
  return true;
}

void Exchange::Begin() {
  for (const Message& message : sent_) Write(message);
  for (const auto& [target, message] : copies_) std::memmove(target, message.bytes, message.size);
}

bool Exchange::Advance() {
  if (communicator_->aborted()) return true;
  if (!std::exchange(begun_, true)) Begin();
  std::erase_if(received_, Take);
  std::erase_if(sent_, [](const Message& message) { return !Exists(message.path); });
  return sent_.empty() && received_.empty();
}

}  // namespace ingot::standin
