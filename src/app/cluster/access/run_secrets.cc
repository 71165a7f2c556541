#include "app/cluster/access/run_secrets.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/checksum.h"
#include "base/log.h"
#include "base/random.h"
#include "base/secret.h"

namespace ingot::app {
namespace {

constexpr size_t kTokenBytes = 32, kAdminKeyBytes = 24;
constexpr size_t kMaxBytes = 16384;
constexpr char kSpace[] = " \t\r\n";

// Removes the first line from `text` and returns it without surrounding whitespace.
std::string TakeLine(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  line = line.substr(begin, line.find_last_not_of(kSpace) + 1 - begin);
  return std::string(line);
}

}  // namespace

std::string RunSecrets::Text() const { return absl::StrCat(token, "\n", admin_key, "\n"); }

absl::StatusOr<RunSecrets> MakeRunSecrets(const RunConfig& config) {
  INGOT_ASSIGN_OR_RETURN(RunSecrets secrets, FindRunSecrets(config));
  if (secrets.token.empty()) secrets.token = base::RandomHex(kTokenBytes);
  // The agents' runner opens episodes, so the agents themselves do not need the key.
  if (!config.agents.recipes.empty()) secrets.admin_key = base::RandomHex(kAdminKeyBytes);
  return secrets;
}

absl::StatusOr<RunSecrets> ReadRunSecrets(int fd) {
  std::string text;
  std::array<char, 4096> bytes;
  ssize_t got = 0;
  while (text.size() <= kMaxBytes &&
         ((got = read(fd, bytes.data(), bytes.size())) > 0 || (got < 0 && errno == EINTR))) {
    if (got > 0) text.append(bytes.data(), static_cast<size_t>(got));
  }
  if (got < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token-fd ", fd, ": cannot read the run's token: ", std::strerror(errno)));
  }
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || (null != fd && dup3(null, fd, fd > 2 ? O_CLOEXEC : 0) < 0)) {
    return absl::UnavailableError(
        absl::StrCat("--token-fd ", fd, ": cannot replace it by /dev/null: ", std::strerror(errno)));
  }
  if (null != fd) close(null);
  std::string_view rest = text;
  RunSecrets secrets;
  secrets.token = TakeLine(rest);
  secrets.admin_key = TakeLine(rest);
  const auto is_word = [](const std::string& word) { return word.find_first_of(kSpace) == std::string::npos; };
  if (text.size() > kMaxBytes || !base::IsSecret(secrets.token) || !is_word(secrets.admin_key) ||
      rest.find_first_not_of(kSpace) != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--token-fd ", fd, ": expected a line with the run's token, such as the output of `openssl rand -hex 32`"));
  }
  return secrets;
}

std::string SecretOfRanks(const std::string& token) {
  if (token.empty()) return "";
  const std::string text = "ranks of " + token;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) != 1) {
    INGOT_LOG(critical, "this system's OpenSSL has no SHA-256");  // without it, any process could pass for a rank
    std::abort();
  }
  return base::Hex(std::string_view(reinterpret_cast<const char*>(digest), size));
}

absl::StatusOr<RunSecrets> FindRunSecrets(const RunConfig& config) {
  RunSecrets secrets;
  if (config.cluster.token_file.empty()) return secrets;
  absl::StatusOr<std::string> token = base::ReadSecret(config.cluster.token_file);
  if (!token.ok()) return base::Annotate(token.status(), "cluster.token_file");
  secrets.token = *std::move(token);
  return secrets;
}

}  // namespace ingot::app
