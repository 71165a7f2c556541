// A channel to a role that may restart at another address. Clients get the current channel before each call.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace ingot::v1 {

// Cheap to copy. Thread safe.
class RoleChannel {
 public:
  // A channel to an address that never changes.
  RoleChannel(std::shared_ptr<grpc::Channel> channel)  // NOLINT(google-explicit-constructor)
      : now_([channel = std::move(channel)] { return channel; }) {}
  // `now` must not block. The returned channels must outlive the RPCs on them.
  explicit RoleChannel(std::function<std::shared_ptr<grpc::Channel>()> now) : now_(std::move(now)) {}

  // Returns the channel to the role's current address.
  std::shared_ptr<grpc::Channel> Now() const { return now_(); }

 private:
  std::function<std::shared_ptr<grpc::Channel>()> now_;
};

// Creates service stubs for the role's current address. Thread safe.
template <typename Service>
class Stubs {
 public:
  explicit Stubs(RoleChannel channel) : channel_(std::move(channel)) {}

  std::shared_ptr<typename Service::Stub> Now() const {
    std::shared_ptr<grpc::Channel> channel = channel_.Now();
    std::lock_guard<std::mutex> lock(mu_);
    if (channel != used_) {
      stub_ = Service::NewStub(channel);
      used_ = std::move(channel);
    }
    return stub_;
  }

 private:
  const RoleChannel channel_;
  mutable std::mutex mu_;
  mutable std::shared_ptr<grpc::Channel> used_;  // the channel of stub_
  mutable std::shared_ptr<typename Service::Stub> stub_;
};

}  // namespace ingot::v1
