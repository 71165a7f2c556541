// An image that a test makes itself.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace ingot::sandbox {

// Makes FOLDER/image.tar, a docker archive of one layer: a static shell, /app/greeting, an environment and a working folder.
// False: the machine lacks the tools.
inline bool MakeTestImage(const std::string& folder) {
  constexpr char kMake[] = R"(set -e
cd "$1"; mkdir -p layer/bin layer/app layer/etc layer/tmp
cp /bin/busybox layer/bin/busybox; ln -s busybox layer/bin/sh; ln -s busybox layer/bin/cat; ln -s busybox layer/bin/id
ln -s busybox layer/bin/ls
echo "from the image" > layer/app/greeting
tar -C layer --owner=0 --group=0 -cf layer.tar .
sum=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin","GREETING=hello"],"WorkingDir":"/app"},' > config.json
printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' $sum >> config.json
printf '[{"Config":"config.json","RepoTags":["test:1"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf image.tar manifest.json config.json layer.tar
)";
  if (std::system("command -v skopeo umoci busybox >/dev/null 2>&1") != 0 || access("/bin/busybox", X_OK) != 0) {
    return false;
  }
  std::ofstream(folder + "/make.sh") << kMake;
  return std::system(absl::StrCat("sh ", folder, "/make.sh ", folder).c_str()) == 0;
}

}  // namespace ingot::sandbox
