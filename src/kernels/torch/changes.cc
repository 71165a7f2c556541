#include "kernels/torch/changes.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda/changes_args.h"

namespace ingot::kernels {
namespace {

constexpr int64_t kGroups = cuda::kChangesThreads;  // of a block
constexpr int64_t kElements = kGroups * cuda::kChangesGroup;

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("count_changes(Tensor marks, int count, Tensor(a!) starts) -> ()");
  m.def(
      "gather_changes(Tensor elements, Tensor marks, Tensor starts, int first, int blocks, int places, int values, "
      "Tensor(a!) out) -> ()");
}

// The lists of blocks [first, first + blocks) of a tensor, in the buffer from `at` on.
struct Piece {
  size_t tensor;
  int64_t first, blocks, at;
  ChangesLists lists;
};

// Returns the sizes of the lists of blocks [first, end). `starts` are the tensor's.
ChangesLists ListsOf(const int64_t* starts, int64_t first, int64_t end, int64_t count) {
  const auto size = static_cast<uint64_t>(starts[end]) - static_cast<uint64_t>(starts[first]);
  const int64_t groups = (count + cuda::kChangesGroup - 1) / cuda::kChangesGroup;
  return {.groups = std::min(end * kGroups, groups) - first * kGroups,
          .places = static_cast<int64_t>(size & 0xffffffffu),
          .values = static_cast<int64_t>(size >> 32)};
}

// Appends a piece's changes.
void Decode(const Piece& piece, const uint8_t* from, int64_t element_bytes, GatheredChanges& to) {
  const uint8_t *place = from + piece.lists.places_at(), *const end = place + piece.lists.places;
  uint64_t* entry = to.marks.data() + piece.first * kGroups;
  int64_t values = 0;
  bool fits = true;
  for (int64_t group = 0; group < piece.lists.groups && fits; ++group, ++entry) {
    const int count = from[group], size = std::min(count, cuda::kChangesListed);
    fits = end - place >= size;
    if (!fits) break;
    if (count < cuda::kChangesListed) {
      for (int i = 0; i < count; ++i) *entry |= uint64_t{1} << (place[i] % cuda::kChangesGroup);
    } else {
      std::memcpy(entry, place, sizeof(*entry));
    }
    fits = std::popcount(*entry) == count;
    place += size;
    values += count;
  }
  TORCH_CHECK(fits && place == end && values == piece.lists.values, "gather_changes: the lists of blocks ", piece.first,
              " to ", piece.first + piece.blocks, " do not have the sizes that were counted");
  const auto* const data = reinterpret_cast<const std::byte*>(from) + piece.lists.values_at();
  to.values.insert(to.values.end(), data, data + values * element_bytes);
}

// Fills the buffer piece by piece, and copies it to the host when it is full.
class Gatherer {
 public:
  Gatherer(std::span<const MarkedTensor> tensors, int64_t buffer_bytes)
      : tensors_(tensors), limit_(buffer_bytes), all_(tensors.size()) {}

  std::vector<GatheredChanges> Run() {
    Count();
    for (size_t i = 0; i < tensors_.size(); ++i) Gather(i);
    Flush();
    return std::move(all_);
  }

 private:
  static at::TensorOptions On(const at::Tensor& t, at::ScalarType type) {
    return at::TensorOptions().device(t.device()).dtype(type);
  }

  void Count() {
    int64_t size = 0, most = 0;
    for (const MarkedTensor& tensor : tensors_) {
      firsts_.push_back(size);
      size += ChangesBlocks(tensor.elements.numel()) + 1;
    }
    starts_ = at::empty({size}, On(tensors_[0].elements, at::kLong));
    for (size_t i = 0; i < tensors_.size(); ++i) CountChangesOp(tensors_[i].marks, CountOf(i), StartsOf(i));
    host_starts_ = starts_.to(at::kCPU);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const ChangesLists lists = ListsOf(HostStartsOf(i), 0, ChangesBlocks(CountOf(i)), CountOf(i));
      all_[i].marks.resize(static_cast<size_t>(lists.groups));
      all_[i].values.reserve(static_cast<size_t>(lists.values * BytesOf(i)));
      most += lists.bytes(BytesOf(i));
    }
    limit_ = std::min(limit_, std::max(most, kChangesLeastBytes));
    buffer_ = at::empty({limit_}, On(tensors_[0].elements, at::kByte));
  }

  void Gather(size_t i) {
    const int64_t* const starts = HostStartsOf(i);
    const int64_t blocks = ChangesBlocks(CountOf(i));
    for (int64_t first = 0; first < blocks;) {
      if (starts[first + 1] == starts[first]) {  // no changes
        ++first;
        continue;
      }
      const auto fits = [&](int64_t end) {
        return used_ + ListsOf(starts, first, end, CountOf(i)).bytes(BytesOf(i)) <= limit_;
      };
      int64_t end = first;
      while (end < blocks && fits(end + 1)) ++end;
      if (end == first) {
        Flush();
        continue;
      }
      const ChangesLists lists = ListsOf(starts, first, end, CountOf(i));
      const int64_t bytes = lists.bytes(BytesOf(i));
      GatherChangesOp(tensors_[i], StartsOf(i), first, end - first, lists, buffer_.narrow(0, used_, bytes));
      pieces_.push_back({i, first, end - first, used_, lists});
      used_ += bytes;
      first = end;
    }
  }

  void Flush() {
    if (pieces_.empty()) return;
    const at::Tensor host = buffer_.narrow(0, 0, used_).to(at::kCPU);
    const auto* const bytes = host.const_data_ptr<uint8_t>();
    for (const Piece& piece : pieces_) Decode(piece, bytes + piece.at, BytesOf(piece.tensor), all_[piece.tensor]);
    pieces_.clear();
    used_ = 0;
  }

  int64_t CountOf(size_t i) const { return tensors_[i].elements.numel(); }
  int64_t BytesOf(size_t i) const { return tensors_[i].elements.element_size(); }
  at::Tensor StartsOf(size_t i) const { return starts_.narrow(0, firsts_[i], ChangesBlocks(CountOf(i)) + 1); }
  const int64_t* HostStartsOf(size_t i) const { return host_starts_.const_data_ptr<int64_t>() + firsts_[i]; }

  const std::span<const MarkedTensor> tensors_;
  int64_t limit_;  // of the buffer
  std::vector<GatheredChanges> all_;
  std::vector<int64_t> firsts_;  // of the tensors' starts
  at::Tensor starts_, host_starts_, buffer_;
  std::vector<Piece> pieces_;  // in the buffer
  int64_t used_ = 0;
};

}  // namespace

int64_t ChangesBlocks(int64_t count) { return (count + kElements - 1) / kElements; }

int64_t GatherChangesBytes(int64_t elements, int64_t element_bytes) {
  const int64_t groups = elements / cuda::kChangesGroup + 1;
  const ChangesLists most{.groups = groups, .places = groups * cuda::kChangesListed, .values = elements};
  const int64_t buffer = std::min(kChangesBufferBytes, std::max(most.bytes(element_bytes), kChangesLeastBytes));
  return buffer + ChangesBlocks(elements) * static_cast<int64_t>(sizeof(cuda::ChangesSize));
}

void CountChangesOp(const at::Tensor& marks, int64_t count, const at::Tensor& starts) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::count_changes", "");
  op.typed<CountChangesSignature>().call(marks, count, starts);
}

void GatherChangesOp(const MarkedTensor& tensor, const at::Tensor& starts, int64_t first, int64_t blocks,
                     const ChangesLists& lists, const at::Tensor& out) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("ingot::gather_changes", "");
  op.typed<GatherChangesSignature>().call(tensor.elements, tensor.marks, starts, first, blocks, lists.places,
                                          lists.values, out);
}

std::vector<GatheredChanges> GatherChanges(std::span<const MarkedTensor> tensors, int64_t buffer_bytes) {
  TORCH_CHECK(buffer_bytes >= kChangesLeastBytes, "gather_changes: a buffer of ", buffer_bytes, " bytes is less than ",
              kChangesLeastBytes, ", which the lists of a block may take");
  if (tensors.empty()) return {};
  const at::NoGradGuard no_history;
  return Gatherer(tensors, buffer_bytes).Run();
}

}  // namespace ingot::kernels
