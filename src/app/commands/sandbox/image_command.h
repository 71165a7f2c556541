// `ingot image`: unpacks images into a store, lists them, and removes them.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct ImageArgs {
  std::string source;                    // image to unpack
  std::string store;                     // empty = the store in the default work root
  std::vector<std::string> build_hosts;  // hosts that Dockerfile steps may reach (sandbox/egress/egress_list.h)
  bool list = false;
  std::vector<std::string> remove;  // digests or sources
  int prune_days = -1;              // removes images not used for this many days; -1 = off
};

// Performs exactly one of these:
//   source      unpacks the image and prints one JSON object: digest, rootfs, env, and working_dir
//   list        prints one line per image (digest, size, day of last use, sources) plus a line with the total
//   remove      removes the images and prints one line for each
//   prune_days removes all images not used for that long, and prints one line for each
// Returns the exit code: 1, with a line on `errors`, if an image does not exist or another process is using the store,
// 2 unless exactly one action is given, and 130 after SIGINT or SIGTERM. A signal stops the unpacking tools and leaves
// no partial results.
int RunImage(const ImageArgs& args, std::ostream& out, std::ostream& errors);

// Returns `named`, or the default store if it is empty.
std::string ImageStoreFolder(const std::string& named);

}  // namespace ingot::app
