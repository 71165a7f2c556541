#!/usr/bin/env python3
"""Holds every #include under src/ against the floors table: floors.py SOURCE_DIR | --self-test.

A folder includes itself, the folders its row names, and the third-party headers its row names. `x/y.h` in a row is
that header alone. Third-party headers are named by a group of include prefixes.
"""
import pathlib
import re
import sys

GROUPS = {
    "absl": ("absl/",),
    "spdlog": ("spdlog/",),
    "yaml": ("yaml-cpp/",),
    "prometheus": ("prometheus/",),
    "xxhash": ("xxhash.h",),
    "pcre2": ("pcre2.h",),
    "re2": ("re2/",),
    "multiprecision": ("boost/multiprecision",),
    "utf8proc": ("utf8proc.h",),
    "zstd": ("zstd.h", "zstd_errors.h"),
    "json": ("boost/json", "simdjson.h"),
    "net": ("boost/beast", "boost/asio", "boost/system"),
    "openssl": ("openssl/",),
    "seccomp": ("seccomp.h",),
    "toml": ("toml++/",),
    "rocksdb": ("rocksdb/",),
    "libpq": ("postgresql/",),
    "libcurl": ("curl/",),
    "torch": ("ATen/", "torch/", "c10/"),
    "grpc": ("grpcpp/", "grpc/"),
    "protobuf": ("google/protobuf/",),
    "cli": ("CLI/",),
}
BASE = ("base", "absl")

# Plain values that gateway/api and gateway/prompt share.
GATEWAY_VALUES = ("gateway/echoed_ids.h", "gateway/json_limit.h", "gateway/part_kind.h")

# What every rollout engine implements and obeys, whoever wrote it.
ROLLOUT_VALUES = tuple(f"rollout/{name}.h" for name in (
    "client", "served_engine", "engine/chunk_gate", "engine/request_check", "sampling/constraint", "sampling/repetition_watch", "sampling/stop_matcher"))

# The rows of docs/internals/architecture.md. gRPC and generated services stand only in files whose name says so (see GRPC_FILES).
TABLE = {
    "base": ("absl", "spdlog", "yaml", "prometheus", "xxhash", "json"),
    "gguf": BASE,
    "kernels": (),
    "kernels/torch": ("kernels", "torch"),
    "sandbox": BASE + ("seccomp",),
    "http": BASE + ("net", "openssl", "libcurl"),
    "execution": BASE + ("sandbox", "http"),
    "registry": BASE + ("proto",),
    "tree": BASE + ("proto",),
    "text": BASE + ("gguf", "pcre2", "utf8proc"),
    "grammar": BASE,
    "kv": BASE,
    "weights": BASE + ("proto", "kernels", "zstd", "http/client.h"),
    "model": BASE + ("gguf", "kernels", "kernels/torch", "torch"),
    "dataset": BASE + ("tree", "text", "proto", "toml"),
    "datapool": BASE + ("tree", "proto", "rocksdb", "libpq"),
    "rollout": BASE + ("kv", "model", "weights", "kernels", "kernels/torch", "text", "grammar", "proto", "torch"),
    "engines": BASE + ("weights", "text", "grammar", "sandbox", "proto", "http/client.h", "http/streams.h") + ROLLOUT_VALUES,
    "reward": BASE + ("tree", "text", "sandbox", "proto", "datapool/client.h", "re2", "multiprecision"),
    "scheduler": BASE + ("tree", "proto", "datapool/client.h"),
    "gateway": BASE + ("gateway/api", "gateway/prompt", "tree", "text", "proto", "rollout/client.h", "datapool/client.h", "http", "openssl"),
    "gateway/api": BASE + ("text", "proto") + GATEWAY_VALUES,
    "gateway/prompt": BASE + ("tree", "text", "proto") + GATEWAY_VALUES,
    "trainer": BASE + ("tree", "model", "kernels", "kernels/torch", "weights", "dataset", "text", "proto", "torch"),
    "view": BASE + ("tree", "text", "proto", "http", "datapool/client.h"),
    "loggers": BASE + ("sandbox", "view", "tree", "proto", "datapool/client.h"),
    "agents": BASE + ("http", "reward", "sandbox", "proto"),
}
# The floors inside a folder, lowest first: a file includes its own folder there and those of lower floors. Files of src/app/
# itself lie above all of them, files of other folders themselves below.
FLOORS = {
    "app": (("terminal",), ("run",), ("models", "cluster"), ("checks",), ("record",), ("training",), ("roles",), ("learning",), ("commands",)),
    "text": ((), ("unicode",), ("jinja", "tokenizer"), ("output",), ("chat",)),
}
HTTP_FILES = re.compile(r"^gateway/http/\w+\.(h|cc)$")  # of the gateway, only these know HTTP
POSTGRES_FILES = re.compile(r"^datapool/postgres/\w+\.(h|cc)$")  # of the pool, only these know libpq
CURL_FILES = re.compile(r"^http/(client\.cc|curl_parts\.(h|cc)|streams\.cc)$")  # only these know libcurl
GRPC_FILES = re.compile(r"(^|_|/)(service|grpc\w*|\w+_grpc)\.(h|cc)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
SYSTEM = re.compile(r"^[a-z0-9_]+(\.h)?$|^(sys|linux|arpa|netinet|bits)/")


def folder_of(relative):
    parts = relative.split("/")
    below = "/".join(parts[:2])
    return below if below in TABLE else parts[0]


def floor_in(path):
    """The floor of a file within its folder, 0 where that has none. None: its own folder there is not in FLOORS."""
    parts = path.split("/")
    floors = FLOORS.get(parts[0])
    if floors is None:
        return 0
    if len(parts) == 2:
        return len(floors) if parts[0] == "app" else 0
    return next((floor for floor, names in enumerate(floors) if parts[1] in names), None)


def beside(relative, include):
    """True if the two lie in different folders of one floor, which know nothing of each other."""
    a, b = relative.split("/"), include.split("/")
    if a[0] != b[0] or len(a) < 3 or len(b) < 3 or a[1] == b[1]:
        return False
    return any(a[1] in names and b[1] in names for names in FLOORS.get(a[0], ()))


def allowed(relative, include):
    """None if `relative` (a path below src/) may include `include`, else the reason."""
    folder = folder_of(relative)
    if floor_in(relative) is None:
        return f"{relative} lies in a folder that has no floor in FLOORS"
    if include.split("/")[0] == folder and (floor_in(include) is None or floor_in(include) > floor_in(relative)):
        return f"{relative} lies below {include.rpartition('/')[0]} (FLOORS)"
    if beside(relative, include):
        return f"{relative} and {include.rpartition('/')[0]} lie beside each other (FLOORS)"
    if folder == "app":
        return None
    row = TABLE.get(folder)
    if row is None:
        return f"folder '{folder}' has no row in the floors table"
    for name, prefixes in GROUPS.items():
        if include.startswith(prefixes):
            if name == "grpc":
                return None if GRPC_FILES.search(relative) and "proto" in row else "gRPC only in service.* and grpc_* files"
            if name == "libpq" and not POSTGRES_FILES.search(relative):
                return "in datapool only files of postgres/ include libpq"
            if name == "libcurl" and not CURL_FILES.search(relative):
                return "libcurl only behind http/client.h and http/streams.h"
            if name == "protobuf" and "proto" in row:
                return None
            return None if name in row else f"third-party '{name}' is not in the row of {folder}"
    if include.startswith("proto/"):
        if include.endswith(".grpc.pb.h") or include == "proto/grpc_status.h":
            return None if GRPC_FILES.search(relative) and "proto" in row else "generated services only in service.* and grpc_* files"
        return None if "proto" in row else f"proto is not in the row of {folder}"
    if "/" in include and not include.startswith(("sys/", "linux/", "arpa/", "netinet/", "bits/", "net/")):
        target = folder_of(include)
        if target == "http" and folder == "gateway" and not HTTP_FILES.search(relative):
            return "in gateway only files of http/ include http"
        if target == folder or target in row or include in row:
            return None
        return f"{folder} may not include {target}"
    if include == "immintrin.h" or SYSTEM.match(include):
        return None
    return f"'{include}' is not known to the floors table"


def check(source_dir):
    failures, count = [], 0
    src = pathlib.Path(source_dir) / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".cuh", ".inc"):
            continue
        relative = path.relative_to(src).as_posix()
        for include in INCLUDE.findall(path.read_text()):
            count += 1
            reason = allowed(relative, include)
            if reason:
                failures.append(f"src/{relative}: #include \"{include}\": {reason}")
    print("\n".join(failures))
    print(f"floors: {count} includes checked, {len(failures)} against the table")
    return 1 if failures or count == 0 else 0


def self_test():
    assert allowed("tree/a.cc", "base/status.h") is None
    assert allowed("tree/a.cc", "datapool/store.h")
    assert allowed("scheduler/a.cc", "datapool/client.h") is None
    assert allowed("scheduler/a.cc", "datapool/store.h")
    assert allowed("gateway/a.cc", "scheduler/client.h")
    assert allowed("gateway/a.cc", "gateway/prompt/history.h") is None
    assert allowed("gateway/api/a.cc", "gateway/echoed_ids.h") is None
    assert allowed("gateway/api/a.cc", "gateway/episodes/episode.h")
    assert allowed("gateway/prompt/a.cc", "gateway/api/request.h")
    assert allowed("tree/a.cc", "ATen/ATen.h")
    assert allowed("datapool/store.cc", "grpcpp/grpcpp.h")
    assert allowed("datapool/store.cc", "postgresql/libpq-fe.h")
    assert allowed("datapool/postgres/postgres_connection.cc", "postgresql/libpq-fe.h") is None
    assert allowed("weights/stores/s3_http.cc", "curl/curl.h")
    assert allowed("weights/stores/s3_http.cc", "http/client.h") is None
    assert allowed("weights/stores/s3_http.cc", "http/server.h")
    assert allowed("http/client.cc", "curl/curl.h") is None
    assert allowed("http/client.h", "curl/curl.h")
    assert allowed("engines/api/vllm_api.cc", "rollout/client.h") is None
    assert allowed("engines/api/vllm_api.cc", "rollout/engine/engine.h")
    assert allowed("engines/external/external_call.cc", "curl/curl.h")
    assert allowed("datapool/service.cc", "grpcpp/grpcpp.h") is None
    assert allowed("scheduler/grpc_client.cc", "proto/scheduler.grpc.pb.h") is None
    assert allowed("gateway/http/http_api.h", "http/handler.h") is None
    assert allowed("gateway/calls/answer.cc", "http/handler.h")
    assert allowed("gateway/http/http_api.cc", "boost/asio/post.hpp")
    assert allowed("http/server.h", "gateway/gateway.h")
    assert allowed("app/main.cc", "app/commands/run/train.h") is None
    assert allowed("app/commands/run/train.cc", "app/run/run_config.h") is None
    assert allowed("app/run/run_config.cc", "app/run/run_dir.h") is None
    assert allowed("app/run/run_config.cc", "app/models/term_models.h")
    assert allowed("app/roles/run_role.cc", "app/commands/run/train.h")
    assert allowed("app/cluster/front.cc", "app/cluster/access/grpc_access.h") is None
    assert allowed("app/cluster/front.cc", "app/models/text_parts.h")
    assert allowed("app/models/text_parts.cc", "app/cluster/front.h")
    assert allowed("app/run/run_dir.cc", "app/main.h")
    assert allowed("app/other/a.cc", "vector")
    assert allowed("text/chat/chat.h", "text/tokenizer/tokenizer.h") is None
    assert allowed("text/chat/chat.h", "text/message.h") is None
    assert allowed("text/message.h", "text/chat/chat.h")
    assert allowed("text/tokenizer/bpe.cc", "text/output/output_row.h")
    assert allowed("text/jinja/value.cc", "text/tokenizer/tokenizer.h")
    assert allowed("gateway/a.cc", "text/chat/chat.h") is None
    assert allowed("tree/a.cc", "vector") is None
    assert allowed("kernels/a.cc", "base/status.h")
    print("floors: self-test passed")
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "--self-test" else check(sys.argv[1]))
