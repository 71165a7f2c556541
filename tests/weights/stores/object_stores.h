// The stores over which the contract tests run.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "weights/stores/directory_store.h"
#include "weights/stores/s3_http.h"
#include "weights/stores/s3_server.h"
#include "weights/stores/s3_store.h"

namespace ingot::weights::testing {

// A folder that is removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-store-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline constexpr const char* kStores[] = {"directory", "s3"};

// The options of a bucket of the test's server, which is made.
inline S3Options NewBucket() {
  S3Server& server = S3Server::Get();
  S3Options options;
  options.endpoint = server.url();
  options.bucket = server.NewBucket();
  options.part_bytes = 5 << 20;
  options.deadline = std::chrono::seconds(30);
  const S3Answer made =
      S3Http(options, {"key", "secret", ""})
          .Send({.method = "PUT", .path = "", .query = ""}, std::chrono::steady_clock::now() + std::chrono::seconds(30))
          .value();
  if (made.http != 200) options.bucket.clear();
  return options;
}

// An empty store of one kind.
class StoreOfTest {
 public:
  explicit StoreOfTest(const std::string& kind) : kind_(kind) {}
  // The reason why there is none; empty = there is one.
  std::string missing() const {
    return kind_ == "s3" && !S3Server::Installed() ? "no moto (scripts/setup.sh services)" : "";
  }
  // Null if it is missing.
  std::shared_ptr<ObjectStore> Open() const {
    if (!missing().empty()) return nullptr;
    if (kind_ == "s3") return OpenS3Store(NewBucket(), {"key", "secret", ""}).value();
    return OpenDirectoryStore(folder_.path() + "/store").value();
  }

 private:
  const std::string kind_;
  const TempFolder folder_;
};

}  // namespace ingot::weights::testing
