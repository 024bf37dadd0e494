// A made-up accelerator for the tests: its memory is the host's, counted and limited; its kernels
// are the CPU's; its generator is its own; and it counts how often the host waits for it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>

namespace {

constexpr auto kToy = c10::DeviceType::PrivateUse1;
std::atomic<int64_t> allocated{0}, peak{0}, limit{0}, reads{0};
thread_local bool is_inside = false;  // a kernel moves its arguments without being counted

struct Block {
  void* data;
  int64_t size;
};

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    const auto wanted = allocated + static_cast<int64_t>(size);
    TORCH_CHECK_WITH(
        OutOfMemoryError, !limit || wanted <= limit, "toy out of memory: ", wanted, " bytes");
    auto* block = new Block{c10::alloc_cpu(size), static_cast<int64_t>(size)};
    allocated += size;
    peak = std::max(peak.load(), allocated.load());
    return {block->data, block, &release, c10::Device(kToy, 0)};
  }
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    allocated -= block->size;
    c10::free_cpu(block->data);
    delete block;
  }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
};
Memory memory;
REGISTER_ALLOCATOR(kToy, &memory);

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kToy> {  // one stream, which is done at once
  c10::Device getDevice() const override { return {kToy, 0}; }
  c10::Device exchangeDevice(c10::Device) const override { return {kToy, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag)
      const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, {kToy, 0}); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

at::Generator& generator() {
  static at::Generator own = at::detail::createCPUGenerator(0);
  return own;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return generator(); }
};

at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.device().type() != kToy) return tensor;
  const auto options = tensor.options().device(c10::kCPU);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

void count_read() {
  if (!is_inside) ++reads;
}

at::Tensor empty(
    c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
    std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(
      size, &memory, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(
      size, stride, &memory, keys, c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (from.device().type() == kToy && to.device().type() == c10::kCPU) count_read();
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::native::resize_impl_cpu_(to.unsafeGetTensorImpl(), from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Scalar read_scalar(const at::Tensor& tensor) {
  count_read();
  return on_host(tensor).item();
}

const at::Tensor& resize(
    const at::Tensor& tensor, c10::IntArrayRef size, std::optional<c10::MemoryFormat>) {
  const auto needed = c10::multiply_integers(size) * tensor.element_size();
  if (needed > static_cast<int64_t>(tensor.storage().nbytes())) {
    auto fresh = memory.allocate(needed);
    memory.copy_data(fresh.get(), tensor.storage().data(), tensor.storage().nbytes());
    tensor.storage().set_data_ptr_noswap(std::move(fresh));
    tensor.storage().set_nbytes(needed);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return tensor;
}

const std::set<std::string> kReading = {"aten::equal", "aten::nonzero", "aten::masked_select",
                                        "aten::_unique2", "aten::is_nonzero"};

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (kReading.count(op.schema().name())) count_read();
  const bool was_inside = std::exchange(is_inside, true);
  const bool draws = !was_inside && op.hasTag(at::Tag::nondeterministic_seeded);
  auto host = at::detail::getDefaultCPUGenerator();
  at::Tensor kept;
  if (draws) {  // from the device's generator, not from the host's
    kept = host.get_state();
    host.set_state(generator().get_state());
  }
  const auto finish = [&] {
    if (draws) {
      generator().set_state(host.get_state());
      host.set_state(kept);
    }
    is_inside = was_inside;
  };
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", read_scalar);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY(toy, m) {
  m.def("start() -> ()", [] { at::RegisterPrivateUse1HooksInterface(new Hooks()); });
  m.def("allocated() -> int", [] { return allocated.load(); });
  m.def("peak() -> int", [] { return peak.load(); });
  m.def("reset_peak() -> ()", [] { peak = allocated.load(); });
  m.def("set_limit(int bytes) -> ()", [](int64_t bytes) { limit = bytes; });
  m.def("reads() -> int", [] { return reads.load(); });
  m.def("seed(int seed) -> ()", [](int64_t seed) { generator().set_current_seed(seed); });
  m.def("rng_state() -> Tensor", [] { return generator().get_state(); });
  m.def("set_rng_state(Tensor state) -> ()", [](const at::Tensor& s) { generator().set_state(s); });
}
