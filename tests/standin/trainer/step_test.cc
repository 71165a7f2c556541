// Training steps on a device, whose torch operators add rows in another order each time (operators/operators.cc): equal
// bits over runs and after a resume. Runs under standin.py; INGOT_CUDA_LIBRARY names libingot_cuda.so.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/torch/changes.h"
#include "model/parameters.h"
#include "standin/trainer/open_device.h"
#include "trainer/device_checksums.h"
#include "trainer/makers.h"
#include "trainer/temp_dir.h"
#include "trainer/tiny_model.h"
#include "trainer/trainer.h"
#include "weights/delta.h"
#include "weights/tensor_checksum.h"

namespace ingot::trainer {
namespace {

constexpr int kVocab = 37, kSteps = 3;

TrainerOptions Options(const std::string& dtype) {
  TrainerOptions options;
  options.dtype = dtype;
  options.optimizer.learning_rate = 0.02;
  options.optimizer.decay = "constant";
  options.threads = 1;
  options.micro_batch_tokens = 128;  // the step's bound is measured at this size, by interpreted kernels
  return options;
}

std::unique_ptr<Trainer> Start(const TrainerOptions& options, at::Device device) {
  const model::ModelConfig config = TinyConfig(kVocab);
  model::Parameters parameters = TinyParameters(config, 1, at::kFloat);
  for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(device);
  auto trainer = Trainer::Create(options, config, std::move(parameters));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

// Steps until version `end`. Each batch is a forest of rewritten, continued, and equal calls, so that its tokens have many rows.
void Train(Trainer& trainer, int64_t end) {
  while (trainer.version() < end) {
    const auto report = trainer.TrainStep(RandomBatch(7 + trainer.version(), kVocab, trainer.version()));
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->metrics.at("trainer/skipped"), 0);
  }
}

std::map<std::string, at::Tensor> WeightsOf(const Trainer& trainer) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, tensor] : trainer.parameters().tensors()) weights[name] = tensor.detach().to(at::kCPU);
  return weights;
}

void ExpectSameBits(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

class DeviceStep : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceStep, HasTheSameBitsAgainAndAfterAResume) {
  ASSERT_TRUE(OpenDevice());
  const at::Device device(at::kCUDA, 0);
  TrainerOptions options = Options(GetParam());
  options.logits_chunk_elements = 4 * kVocab;  // the head's gradients are summed over several chunks of rows
  const TempDir folder;
  const auto first = Start(options, device);
  Train(*first, 1);
  ASSERT_TRUE(first->SaveCheckpoint(folder.path(), {}).ok());
  Train(*first, kSteps);
  const auto weights = WeightsOf(*first);

  const auto again = Start(options, device);
  Train(*again, kSteps);
  ExpectSameBits(WeightsOf(*again), weights);

  const auto resumed = Trainer::Resume(options, folder.path() + "/step-00000001", device);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  Train(**resumed, kSteps);
  ExpectSameBits(WeightsOf(**resumed), weights);
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceStep, ::testing::Values("fp32", "bf16"));

// Bytes that the process has copied from devices.
uint64_t Downloaded() {
  static void* const count = ::dlsym(RTLD_DEFAULT, "ingot_standin_downloaded_bytes");
  EXPECT_NE(count, nullptr);
  return count == nullptr ? 0 : reinterpret_cast<uint64_t (*)()>(count)();
}

// REQUIRES: train_segments is "current_version", and a step has been trained.
void SkipAStep(Trainer& trainer) {
  TrainBatch old = RandomBatch(5, kVocab, 0);  // no token of the version
  old.step = trainer.version();
  const auto report = trainer.TrainStep(old);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->metrics.at("trainer/skipped"), 1);
}

// A copy of the parameters on the device, without marks: it is compared.
std::shared_ptr<const weights::Snapshot> WholeCopy(const Trainer& trainer, const weights::Snapshot& like) {
  const auto tensors = WeightsOf(trainer);
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < like.size(); ++i) {
    const at::Tensor& tensor = tensors.at(like.view(i).name);
    views.push_back({like.view(i).name, like.view(i).dtype, like.view(i).shape,
                     std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes())});
  }
  return *weights::Snapshot::Copy(like.version(), views);
}

void ExpectSameDelta(const weights::Snapshot& base, const weights::Snapshot& target, const weights::Snapshot& whole) {
  EXPECT_EQ(target.manifest().SerializeAsString(), whole.manifest().SerializeAsString());
  const auto delta = weights::Encode(&base, target, false), compared = weights::Encode(&base, whole, false);
  ASSERT_TRUE(delta.ok() && compared.ok());
  EXPECT_GT(delta->changed_elements, 0);
  EXPECT_EQ(delta->changed_elements, compared->changed_elements);
  EXPECT_EQ(delta->header.SerializeAsString(), compared->header.SerializeAsString());
  ASSERT_EQ(delta->tensors.size(), compared->tensors.size());
  for (size_t i = 0; i < delta->tensors.size(); ++i) {
    EXPECT_EQ(delta->tensors[i].SerializeAsString(), compared->tensors[i].SerializeAsString()) << i;
  }
}

// A version after the first has only the marked elements from the device, and its delta is the CPU's, which compares the
// whole weights.
TEST_P(DeviceStep, AVersionsDeltaIsThatOfAComparison) {
  ASSERT_TRUE(OpenDevice());
  const bool narrow = GetParam() == "bf16";
  for (const bool bounded : {false, true}) {
    TrainerOptions options = Options(GetParam());
    options.train_segments = "current_version";
    if (bounded) {  // proposes, halves, and takes back
      options.trust_region.max_mean = 1e-9;
      options.trust_region.halvings = 2;
    }
    const auto trainer = Start(options, at::Device(at::kCUDA, 0));
    std::shared_ptr<const weights::Snapshot> before = *trainer->TakeSnapshot();
    for (int version = 1; version <= kSteps; ++version) {
      const auto report = trainer->TrainStep(RandomBatch(7 + trainer->version(), kVocab, trainer->version()));
      ASSERT_TRUE(report.ok()) << report.status();
      const uint64_t start = Downloaded();
      const auto snapshot = trainer->TakeSnapshot();
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      const uint64_t downloaded = Downloaded() - start;
      ASSERT_NE((*snapshot)->changes(), nullptr);
      EXPECT_EQ((*snapshot)->changes()->masks.size(), narrow ? (*snapshot)->size() : 0u);
      const auto whole = WholeCopy(*trainer, **snapshot);
      const auto delta = weights::Encode(before.get(), **snapshot, false);
      ASSERT_TRUE(delta.ok());
      if (delta->changed_elements > 0) ExpectSameDelta(*before, **snapshot, *whole);
      // Lists of changes, a start per block of each tensor, and a digest per slice of each.
      const int64_t total = (*snapshot)->total_bytes(), element = narrow ? 2 : 4;
      const int64_t most = total / element / 64 * 9 + std::ssize((*snapshot)->manifest().tensors()) * 400;
      if (narrow && !bounded) {
        EXPECT_LE(downloaded, delta->changed_elements * element + most);
      }
      EXPECT_EQ((*snapshot)->checksum(), whole->checksum());
      before = *snapshot;
    }
    // A skipped step changes nothing: nothing is copied, and the version shares the memory of the last one.
    SkipAStep(*trainer);
    const uint64_t start = Downloaded();
    const auto again = trainer->TakeSnapshot();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->version(), kSteps + 1);
    for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ((*again)->bytes(i).data(), before->bytes(i).data()) << i;
    EXPECT_LT(Downloaded() - start, 400 * before->size());
  }
}

// Without the last version, there is nothing to patch, so the next one is a whole copy.
TEST_P(DeviceStep, AVersionWithoutItsBaseIsAWholeCopy) {
  ASSERT_TRUE(OpenDevice());
  const auto trainer = Start(Options(GetParam()), at::Device(at::kCUDA, 0));
  ASSERT_TRUE(trainer->TakeSnapshot().ok());
  Train(*trainer, 1);
  const auto snapshot = trainer->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ((*snapshot)->checksum(), WholeCopy(*trainer, **snapshot)->checksum());
}

// A tensor on the device, and marks of a share of its elements.
kernels::MarkedTensor Marked(int64_t count, double share, at::ScalarType type) {
  const int64_t groups = (count + 63) / 64;
  const at::Tensor bits = at::zeros({groups * 64}, at::kLong);
  bits.narrow(0, 0, count).copy_(at::rand({count}).lt(share));
  const at::Tensor marks = bits.view({groups, 64}).bitwise_left_shift(at::arange(64, at::kLong)).sum(1);
  return {at::randn({count}).to(type).to(at::kCUDA), marks.to(at::kCUDA)};
}

TEST(DeviceChanges, AreTheMarkedElementsInBuffersOfAnySize) {
  ASSERT_TRUE(OpenDevice());
  std::vector<kernels::MarkedTensor> tensors;
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    for (const int64_t count : {1, 64, 100, 50000}) {
      for (const double share : {0.0, 0.03, 0.9}) tensors.push_back(Marked(count, share, type));
    }
  }
  for (const int64_t buffer : {kernels::kChangesLeastBytes, kernels::kChangesBufferBytes}) {
    const auto all = kernels::GatherChanges(tensors, buffer);
    ASSERT_EQ(all.size(), tensors.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const at::Tensor marks = tensors[i].marks.to(at::kCPU), elements = tensors[i].elements.to(at::kCPU);
      ASSERT_EQ(std::ssize(all[i].marks), marks.numel());
      EXPECT_EQ(std::memcmp(all[i].marks.data(), marks.const_data_ptr(), marks.nbytes()), 0) << i;
      const at::Tensor marked =
                           marks.unsqueeze(1).bitwise_right_shift(at::arange(64, at::kLong)).bitwise_and(1).view(-1),
                       values = elements.masked_select(marked.narrow(0, 0, elements.numel()).to(at::kBool));
      ASSERT_EQ(all[i].values.size(), values.nbytes()) << i;
      if (values.numel() > 0) {
        EXPECT_EQ(std::memcmp(all[i].values.data(), values.const_data_ptr(), values.nbytes()), 0) << i;
      }
    }
  }
  EXPECT_TRUE(kernels::GatherChanges({}).empty());
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(DeviceChanges, OfWrongOperandsAreErrorsThatNameThem) {
  ASSERT_TRUE(OpenDevice());
  using ::testing::HasSubstr;
  const kernels::MarkedTensor good = Marked(1000, 0.1, at::kBFloat16);
  const auto gather = [](const kernels::MarkedTensor& tensor, int64_t buffer = kernels::kChangesBufferBytes) {
    return ErrorOf([&] { kernels::GatherChanges(std::span(&tensor, 1), buffer); });
  };
  EXPECT_EQ(gather(good), "no error");
  EXPECT_THAT(gather(good, kernels::kChangesLeastBytes - 1),
              HasSubstr("gather_changes: a buffer of 69631 bytes is less"));
  EXPECT_THAT(gather({good.elements, good.marks.narrow(0, 0, 15)}), HasSubstr("the marks of 1000 elements must be"));
  EXPECT_THAT(gather({good.elements, good.marks.to(at::kInt)}), HasSubstr("the marks of 1000 elements must be"));
  EXPECT_THAT(gather({good.elements.to(at::kDouble), good.marks}), HasSubstr("of 2 or 4 bytes"));
  EXPECT_THAT(gather({good.elements.view({100, 10}).t(), good.marks}), HasSubstr("must be dense"));

  const at::Tensor starts = at::empty({2}, good.marks.options());
  kernels::CountChangesOp(good.marks, 1000, starts);
  const int64_t size = starts[1].item<int64_t>();
  const kernels::ChangesLists lists{.groups = 16, .places = size & 0xffffffff, .values = size >> 32};
  const auto into = [&](int64_t bytes, int64_t first, int64_t blocks) {
    const at::Tensor out = at::empty({bytes}, good.marks.options().dtype(at::kByte));
    return ErrorOf([&] { kernels::GatherChangesOp(good, starts, first, blocks, lists, out); });
  };
  EXPECT_EQ(into(lists.bytes(2), 0, 1), "no error");
  EXPECT_THAT(into(lists.bytes(2) - 8, 0, 1), HasSubstr("the lists need"));
  EXPECT_THAT(into(lists.bytes(2), 0, 2), HasSubstr("blocks 0 to 2 of 1"));
  EXPECT_THAT(into(lists.bytes(2), -1, 1), HasSubstr("blocks -1 to 0 of 1"));
  EXPECT_THAT(ErrorOf([&] { kernels::CountChangesOp(good.marks, 1025, starts); }),
              HasSubstr("the marks of 1025 elements"));
}

TEST(DeviceChecksums, AreTheCpus) {
  ASSERT_TRUE(OpenDevice());
  std::map<std::string, at::Tensor> tensors, on_device;
  for (const int64_t count : {0, 1, 100, 120, 121, 3000, 65536, 65537, 65700, 200000}) {
    tensors[absl::StrCat(count)] = at::randn({count}).to(count % 3 == 0 ? at::kFloat : at::kBFloat16);
  }
  for (const auto& [name, tensor] : tensors) on_device[name] = tensor.to(at::kCUDA);
  const auto checksums = ChecksumsOnDevice(on_device);
  for (const auto& [name, tensor] : tensors) {
    const std::span bytes(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    EXPECT_EQ(checksums.at(name), weights::TensorChecksum(bytes)) << name << " elements";
  }
  EXPECT_TRUE(ChecksumsOnDevice({}).empty());
}

// Something wrote the weights, and did not mark what it changed.
TEST(DeviceChanges, ThatAreNotMarkedAreAnError) {
  ASSERT_TRUE(OpenDevice());
  TrainerOptions options = Options("bf16");
  options.train_segments = "current_version";
  const auto trainer = Start(options, at::Device(at::kCUDA, 0));
  Train(*trainer, 1);
  const auto before = *trainer->TakeSnapshot();
  const auto& [name, tensor] = *trainer->parameters().tensors().begin();
  tensor.detach().view(-1).narrow(0, 0, 1).add_(64);
  SkipAStep(*trainer);
  const auto snapshot = trainer->TakeSnapshot();
  EXPECT_TRUE(absl::IsDataLoss(snapshot.status())) << snapshot.status();
  EXPECT_THAT(std::string(snapshot.status().message()), ::testing::HasSubstr(name));
}

// Runs with INGOT_STANDIN_MEMORY_MB set: fills the device, so that nothing is left for the lists of changes.
TEST(DeviceMemory, ThatIsFullIsANamedError) {
  if (std::getenv("INGOT_STANDIN_MEMORY_MB") == nullptr) GTEST_SKIP() << "needs a small device";
  ASSERT_TRUE(OpenDevice());
  const auto trainer = Start(Options("bf16"), at::Device(at::kCUDA, 0));
  const auto before = *trainer->TakeSnapshot();
  Train(*trainer, 1);
  std::vector<at::Tensor> fill;
  for (int64_t bytes = int64_t{16} << 20; bytes >= 512; bytes /= 2) {
    while (ErrorOf([&] { fill.push_back(at::empty({bytes}, at::device(at::kCUDA).dtype(at::kByte))); }) == "no error") {
    }
  }
  const auto full = trainer->TakeSnapshot();
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  EXPECT_THAT(std::string(full.status().message()), ::testing::HasSubstr("the changes of version 1"));
  fill.clear();
  const auto snapshot = trainer->TakeSnapshot();  // the marks are still there
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ((*snapshot)->checksum(), WholeCopy(*trainer, **snapshot)->checksum());
  EXPECT_NE((*snapshot)->changes(), nullptr);
}

TEST(DeviceStepInFp32, IsNearTheCpus) {
  ASSERT_TRUE(OpenDevice());
  const auto host = Start(Options("fp32"), at::kCPU), device = Start(Options("fp32"), at::Device(at::kCUDA, 0));
  Train(*host, 1);
  Train(*device, 1);
  const auto wanted = WeightsOf(*host);
  for (const auto& [name, tensor] : WeightsOf(*device)) {
    // An update of a gradient near 0 depends on its rounding.
    EXPECT_LT((tensor - wanted.at(name)).norm().item<double>(), 1e-3 * wanted.at(name).norm().item<double>()) << name;
  }
}

}  // namespace
}  // namespace ingot::trainer
