// A sandbox that forwards every call to another one, for tests that override a single call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sandbox/substrate.h"

namespace ingot::execution {

class PassingSandbox : public sandbox::Sandbox {
 public:
  explicit PassingSandbox(std::unique_ptr<sandbox::Sandbox> inner) : inner_(std::move(inner)) {}

  const std::string& work() const override { return inner_->work(); }
  const std::string& home() const override { return inner_->home(); }
  const std::string& tmp() const override { return inner_->tmp(); }
  std::string InsideUrl(const std::string& url) const override { return inner_->InsideUrl(url); }
  absl::Status WriteFile(const std::string& relative, std::string_view content) override {
    return inner_->WriteFile(relative, content);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& relative, int64_t limit_bytes) override {
    return inner_->ReadFile(relative, limit_bytes);
  }
  absl::StatusOr<std::string> AddFolder(const std::string& name) override { return inner_->AddFolder(name); }
  sandbox::Fd TakeListener() override { return inner_->TakeListener(); }
  absl::StatusOr<std::string> ReadBound(const std::string& folder, const std::string& relative,
                                        int64_t limit_bytes) override {
    return inner_->ReadBound(folder, relative, limit_bytes);
  }
  absl::Status FillBound(const std::string& folder, const std::string& source) override {
    return inner_->FillBound(folder, source);
  }
  absl::Status ClearBound(const std::string& folder, const std::string& inner) override {
    return inner_->ClearBound(folder, inner);
  }
  absl::StatusOr<std::shared_ptr<const sandbox::Snapshot>> TakeSnapshot() override { return inner_->TakeSnapshot(); }
  absl::StatusOr<sandbox::Outcome> Run(const sandbox::Command& command, const sandbox::Limits& limits,
                                       const sandbox::Cancellation* cancel) override {
    return inner_->Run(command, limits, cancel);
  }
  absl::StatusOr<sandbox::Companion> StartCompanion(const sandbox::Command& command,
                                                    const sandbox::Limits& limits) override {
    return inner_->StartCompanion(command, limits);
  }
  absl::StatusOr<sandbox::Fd> NewSocket() override { return inner_->NewSocket(); }
  absl::StatusOr<std::string> KeepFolders(const std::string& name,
                                          const std::map<std::string, std::string>& beside) override {
    return inner_->KeepFolders(name, beside);
  }
  int64_t MemoryKills() const override { return inner_->MemoryKills(); }

 private:
  const std::unique_ptr<sandbox::Sandbox> inner_;
};

}  // namespace ingot::execution
