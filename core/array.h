// Array: data without history. Shape, strides, dtype, an offset, and a share of a device's memory.
//
// Note [What a version counts]
//   A Storage is a *slot*: the thing that versions count. An allocation is one slot; views share
//   the slot of what they view. Memory that only happens to lie in one allocation (parameters in a
//   replica's flat block) does not: Array::carve() makes a slot of its own that keeps its parent
//   alive. So writing parameter 3 of a flat block does not make graphs stale that saved
//   parameter 7. An in-place write raises exactly the slot's counter; taking a mutable pointer
//   counts as a write.
//
// Note [Layout is read from the strides]
//   There is no flag. A dense 4-D array is row-major or channels-last (MemoryFormat) if its strides
//   say so; where a size is 1 they do not count, so some arrays are both. format_of() then says
//   contiguous. What is computed from an array keeps its layout wherever that is possible;
//   trace.h counts the copies that changed one.
//
// Next: array_ops.h (computing), tensor.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <tandem/core/device.h>
#include <tandem/core/dtype.h>
#include <tandem/core/error.h>
#include <tandem/core/memory.h>
#include <tandem/core/shape.h>

namespace tandem {

/// Between which numbers the int64 elements of a slot lie.
struct ValueRange {
  std::int64_t least = 0, largest = 0;

  /// Of `count` of them on the host; nothing if there are none.
  static std::optional<ValueRange> of(const void* values, std::int64_t count);
};

/// A slot of device memory with a version; see the note above. Frees itself into its pool.
class Storage {
 public:
  /// From the pool of `device`, under the thread's category. Throws OutOfMemory.
  static std::shared_ptr<Storage> allocate(Device device, std::int64_t bytes);
  /// A slot inside `parent`, with a version of its own.
  static std::shared_ptr<Storage> slice(std::shared_ptr<Storage> parent, std::int64_t offset,
                                        std::int64_t bytes);
  /// Memory of pinned_memory(), as memory of a CPU device; its pool does not count it.
  static std::shared_ptr<Storage> pinned(Device device, std::shared_ptr<std::byte> memory,
                                         std::int64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// The allocation this slot lies in: itself, or its parent.
  Category category() const { return category_; }
  /// Counts the memory under another category. REQUIRES: an allocation, not a slice of one.
  void relabel(Category category);
  const Storage& root() const { return parent_ ? parent_->root() : *this; }
  bool is_pinned() const { return root().pinned_ != nullptr; }

  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// One writer at a time; readers of other threads are ordered by whoever hands the array over.
  void raise_version() { version_.store(version() + 1, std::memory_order_relaxed); }

  /// What the host knows of the int64 elements of a slot on a GPU, because it has sent all of them:
  /// until the next write. So indices are checked without waiting for the GPU.
  std::optional<ValueRange> known_range() const {
    return range_version_ == version() ? range_ : std::nullopt;
  }
  /// To be called by whoever has just written all of the slot.
  void set_known_range(std::optional<ValueRange> range) {
    range_ = range;
    range_version_ = version();
  }

 private:
  struct Passkey {};

 public:
  Storage(Passkey, std::byte* data, std::int64_t bytes, Device device, Category category,
          std::shared_ptr<Storage> parent);

 private:
  std::byte* data_;
  std::int64_t bytes_;
  Device device_;
  Category category_;
  std::atomic<std::uint64_t> version_{0};
  std::shared_ptr<Storage> parent_;    // set: the memory is the parent's
  std::shared_ptr<std::byte> pinned_;  // set: it is this, not the pool's
  std::optional<ValueRange> range_;    // of version range_version_
  std::uint64_t range_version_ = 0;
};

/// How a copy between devices is made.
struct CopyOptions {
  /// From pinned memory to a GPU: return at once. The source is read when the copy runs, after all
  /// earlier work of the GPU's stream; it must not be written before that. (It may be freed.) Any
  /// other copy is made as ever.
  bool non_blocking = false;
};

class Array {
 public:
  /// An undefined array: defined() is false, nothing else may be asked.
  Array() = default;

  /// Uninitialised. Throws UsageError for channels_last without four dimensions.
  static Array empty(const Shape& shape, DType dtype, Device device,
                     MemoryFormat format = MemoryFormat::contiguous);
  /// Uninitialised, with the shape, dtype, device and dense_strides() of `like`.
  static Array empty_like(const Array& like);
  static Array full(const Shape& shape, double value, DType dtype, Device device);
  static Array zeros(const Shape& shape, DType dtype, Device device);
  /// Copies `shape.numel()` elements of `dtype` from the host.
  static Array from_host(const void* data, const Shape& shape, DType dtype, Device device);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int dim() const { return shape_.dim(); }
  std::int64_t size(int i) const { return shape_[i]; }
  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t nbytes() const { return numel() * std::int64_t(size_of(dtype_)); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::uint64_t version() const { return storage_->version(); }
  /// Elements between the start of the slot and this array's first element.
  std::int64_t offset() const { return offset_; }

  /// Row-major (or channels-last) without gaps. Strides of sizes of 1 do not count.
  bool is_contiguous() const;
  bool is_contiguous(MemoryFormat format) const;
  /// Without gaps and overlaps, in some order of the dimensions: numel() elements from data() on.
  bool is_dense() const;
  /// The strides of a dense array that lies as this one does: its own if it is dense; channels-last
  /// if its channels are the closest neighbours (a slice of such an array); else row-major.
  Shape dense_strides() const;
  /// Nobody else holds this slot.
  bool is_unique() const { return storage_.use_count() == 1; }
  /// The same elements in the same slot.
  bool same_as(const Array& other) const;

  // Pointers to the first element, in the device's address space.
  const std::byte* data() const {
    return storage_->data() + offset_ * std::int64_t(size_of(dtype_));
  }
  /// Counts as a write.
  std::byte* mutable_data() {
    storage_->raise_version();
    return fresh_data();
  }
  /// For whoever fills an array that nobody has seen yet: no write is counted.
  std::byte* fresh_data() { return storage_->data() + offset_ * std::int64_t(size_of(dtype_)); }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(data());
  }
  template <class T>
  T* mutable_data() {
    return reinterpret_cast<T*>(mutable_data());
  }
  template <class T>
  T* fresh_data() {
    return reinterpret_cast<T*>(fresh_data());
  }

  // Views: they share the slot and its version. Arguments are checked by the ops that users call.
  Array narrow(int dim, std::int64_t start, std::int64_t length) const;
  Array slice(int dim, std::int64_t start, std::int64_t stop, std::int64_t step) const;
  Array select(int dim, std::int64_t index) const;
  Array permute(const std::vector<int>& order) const;
  Array transpose(int a, int b) const;
  Array squeeze(int dim) const;
  Array unsqueeze(int dim) const;
  /// Strides of zero where a size of one stretches. REQUIRES: shape() broadcasts to `shape`.
  Array expand(const Shape& shape) const;
  /// The same elements under another shape if strides allow it, else an undefined array.
  Array view_or_undefined(const Shape& shape) const;
  /// A view if strides allow it, else a row-major copy. REQUIRES: equal numel.
  Array reshape(const Shape& shape) const;
  /// Other sizes and strides over the same slot. REQUIRES: inside the slot.
  Array as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const;
  /// `shape` of `dtype`, row-major, from byte `offset` of the slot on, with a version of its own.
  Array carve(std::int64_t byte_offset, const Shape& shape, DType dtype) const;

  // Copies. All of them give the array itself when there is nothing to do, except clone().
  Array to(Device device, CopyOptions options = {}) const;
  Array to(DType dtype) const;
  Array to(MemoryFormat format) const;
  Array contiguous() const { return to(MemoryFormat::contiguous); }
  Array clone() const;
  /// In pinned memory, on the same device; this array where there is no GPU, or if it is there.
  /// REQUIRES: on a CPU.
  Array pin_memory() const;
  bool is_pinned() const { return storage_->is_pinned(); }

  /// The only element, as a double (int64 above 2^53 rounds). REQUIRES: numel() == 1.
  double item() const;
  /// All elements in row-major order, waiting for the device. REQUIRES: T is the array's dtype.
  template <class T>
  std::vector<T> to_vector() const {
    check(dtype_of<T> == dtype_, "[to_vector] asked for ", dtype_of<T>, ", the array is ", dtype_,
          ". Convert it first with to(dtype)");
    if constexpr (std::is_same_v<T, bool>) {  // vector<bool> has no elements to point to
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(numel()));
      copy_to_host(bytes.data());
      return std::vector<bool>(bytes.begin(), bytes.end());
    } else {
      std::vector<T> values(static_cast<std::size_t>(numel()));
      copy_to_host(values.data());
      return values;
    }
  }
  /// Row-major bytes to the host; waits for the device.
  void copy_to_host(void* out) const;

 private:
  Array(std::shared_ptr<Storage> storage, std::int64_t offset, const Shape& shape,
        const Shape& strides, DType dtype)
      : storage_(std::move(storage)),
        offset_(offset),
        shape_(shape),
        strides_(strides),
        dtype_(dtype) {}

  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  Shape shape_, strides_;
  DType dtype_ = DType::float32;
};

/// channels_last: four dimensions, dense in that order, and not row-major too.
MemoryFormat format_of(const Array& a);
/// The format of a copy that keeps neighbours together: also of slices, which have gaps.
MemoryFormat nearest_format(const Array& a);

}  // namespace tandem
