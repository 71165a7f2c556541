#include "app/commands/sandbox/image_command.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "agents/options.h"
#include "app/run/process.h"
#include "app/terminal/progress.h"
#include "base/json.h"
#include "base/printable.h"
#include "sandbox/image/image.h"
#include "sandbox/image/image_inventory.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;
using sandbox::StoredImage;

int Unpack(const ImageArgs& args, std::ostream& out, std::ostream& errors) {
  sandbox::ImageStore store(ImageStoreFolder(args.store), {.build_hosts = args.build_hosts});
  HandleSignals();
  const auto image = [&] {
    const Underway unpacking("image: unpacking " + args.source);
    const std::jthread stopper([&store](const std::stop_token& over) {
      while (!over.stop_requested() && !StopFlag()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (StopFlag()) store.Stop();
    });
    return store.Resolve(args.source);
  }();
  if (absl::IsCancelled(image.status())) {
    errors << "ingot image: stopped; nothing of '" << args.source << "' was kept\n";
    return 130;
  }
  if (!image.ok()) {
    errors << "ingot image: " << image.status().message() << "\n";
    return 1;
  }
  base::json::object env;
  for (const auto& [name, value] : image->env) env[name] = value;
  out << base::PrintJson(
             {{"digest", image->digest}, {"rootfs", image->rootfs}, {"working_dir", image->working_dir}, {"env", env}})
      << "\n";
  return 0;
}

absl::StatusOr<std::vector<StoredImage>> Stored(const std::string& store) {
  const Underway measuring("image: measuring " + store);
  return sandbox::ListImages(store);
}

std::string Size(int64_t bytes) { return absl::StrFormat("%.3g GB", static_cast<double>(bytes) * 1e-9); }

std::string Day(std::time_t time) {
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

void PrintList(const std::string& store, const std::vector<StoredImage>& images, std::ostream& out) {
  int64_t bytes = 0;
  for (const StoredImage& image : images) {
    bytes += image.bytes;
    out << image.digest << "  " << Size(image.bytes) << "  used " << Day(image.last_use) << "  "
        << base::Printable(absl::StrJoin(image.sources, ", ")) << "\n";
  }
  out << images.size() << " images, " << Size(bytes) << ", in " << store << "\n";
}

// Returns the source with an absolute path without "." or "..".
std::string Normal(const std::string& source) {
  const size_t colon = source.find(':');
  if (colon == std::string::npos || source.starts_with("docker:")) return source;
  std::error_code none;
  const fs::path path = fs::absolute(source.substr(colon + 1), none).lexically_normal();
  return absl::StrCat(source.substr(0, colon + 1), path.string());
}

// Returns whether `name` is the image's digest or one of its sources. A file may be given relative to the current
// directory.
bool IsNamed(const StoredImage& image, const std::string& name) {
  return image.digest == name || std::any_of(image.sources.begin(), image.sources.end(),
                                             [&](const std::string& source) { return Normal(source) == Normal(name); });
}

// Returns the images to remove. Returns NOT_FOUND with the first image that does not exist.
absl::StatusOr<std::vector<StoredImage>> Chosen(const ImageArgs& args, const std::vector<StoredImage>& images) {
  std::vector<StoredImage> chosen;
  const auto is_old = [&](const StoredImage& image) {
    return image.last_use <= std::time(nullptr) - std::time_t{86400} * args.prune_days;
  };
  if (args.prune_days >= 0) std::copy_if(images.begin(), images.end(), std::back_inserter(chosen), is_old);
  for (const std::string& name : args.remove) {
    bool found = false;
    for (const StoredImage& image : images) {
      if (!IsNamed(image, name)) continue;
      found = true;
      const auto is_same = [&](const StoredImage& other) { return other.digest == image.digest; };
      if (std::none_of(chosen.begin(), chosen.end(), is_same)) chosen.push_back(image);
    }
    if (!found) return absl::NotFoundError(absl::StrCat("there is no image '", name, "'; --list shows all images"));
  }
  return chosen;
}

absl::Status Remove(const ImageArgs& args, const std::string& store, std::ostream& out) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<StoredImage> images, Stored(store));
  INGOT_ASSIGN_OR_RETURN(const std::vector<StoredImage> chosen, Chosen(args, images));
  std::vector<std::string> digests;
  int64_t bytes = 0;
  for (const StoredImage& image : chosen) {
    digests.push_back(image.digest);
    bytes += image.bytes;
  }
  if (!digests.empty()) {
    const Underway removing(absl::StrCat("image: removing ", Size(bytes)));
    INGOT_RETURN_IF_ERROR(sandbox::RemoveImages(store, digests));
  }
  for (const StoredImage& image : chosen) {
    out << "removed " << image.digest << "  " << base::Printable(absl::StrJoin(image.sources, ", ")) << "\n";
  }
  out << chosen.size() << " images removed, " << Size(bytes) << "; " << images.size() - chosen.size() << " left\n";
  return absl::OkStatus();
}

absl::Status List(const std::string& store, std::ostream& out) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<StoredImage> images, Stored(store));
  PrintList(store, images, out);
  return absl::OkStatus();
}

}  // namespace

std::string ImageStoreFolder(const std::string& named) {
  return named.empty() ? agents::DefaultWorkRoot() + "/images" : named;
}

int RunImage(const ImageArgs& args, std::ostream& out, std::ostream& errors) {
  const int asked = (args.source.empty() ? 0 : 1) + (args.list ? 1 : 0) + (args.remove.empty() ? 0 : 1) +
                    (args.prune_days >= 0 ? 1 : 0);
  if (asked != 1) {
    errors << "ingot image: give exactly one of SOURCE, --list, --remove, and --prune\n";
    return 2;
  }
  if (!args.source.empty()) return Unpack(args, out, errors);
  const std::string store = ImageStoreFolder(args.store);
  const absl::Status done = args.list ? List(store, out) : Remove(args, store, out);
  if (done.ok()) return 0;
  errors << "ingot image: " << base::Printable(std::string(done.message())) << "\n";
  return 1;
}

}  // namespace ingot::app
